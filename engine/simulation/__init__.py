"""The real scheduler in virtual time: what listeners would hear at a load, without a device.

In reading order: `network` (delay, jitter, stalls), `listeners` (habits, and the player that judges
what was heard), `arrivals` (when and what), `costs` (launch times from a file), `conversation` (one
reply over the network), `simulation` (engines and time), `report` (figures). Pure.
"""
