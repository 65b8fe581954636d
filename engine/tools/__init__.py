"""Commands of the engine that measure and show: `python -m engine.tools.simulate`."""
