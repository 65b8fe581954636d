"""What a launch is expected to take, from what launches have taken."""

import pytest

from engine.costs import LEARNING_RATE, CostModel
from engine.work import Stage


def test_first_measurement_is_believed_and_later_ones_move_it() -> None:
    costs = CostModel()

    costs.learn(Stage.TALKER, 1, 1, 0.010)
    assert costs.predict(Stage.TALKER) == pytest.approx(0.010)
    costs.learn(Stage.TALKER, 1, 1, 0.020)

    assert costs.predict(Stage.TALKER) == pytest.approx(0.010 + LEARNING_RATE * 0.010)


def test_a_hiccup_moves_the_mean_a_little() -> None:
    costs = CostModel()
    costs.learn(Stage.TALKER, 1, 1, 0.010)

    costs.learn(Stage.TALKER, 1, 1, 5.0)

    assert costs.predict(Stage.TALKER) <= 0.0111


def test_unmeasured_batch_is_scaled_from_its_nearest_neighbour() -> None:
    costs = CostModel()
    costs.learn(Stage.TALKER, 1, 1, 0.010)
    costs.learn(Stage.TALKER, 8, 1, 0.012)

    assert costs.predict(Stage.TALKER, 2) > 0.010
    assert costs.predict(Stage.TALKER, 4) < 0.012
    assert costs.predict(Stage.TALKER, 16) > 0.012


def test_neighbouring_sizes_share_what_was_learnt() -> None:
    costs = CostModel()

    costs.learn(Stage.CODEC, 33, 12, 0.030)

    assert costs.predict(Stage.CODEC, 40, 12) == costs.predict(Stage.CODEC, 35, 11) == 0.030
    assert costs.predict(Stage.CODEC, 41, 12) > 0.030


def test_path_to_sound_adds_the_stages_that_follow() -> None:
    costs = CostModel()
    for stage in Stage:
        costs.learn(stage, 1, 1, 0.001)

    lengths = {stage: round(costs.until_sound(stage) * 1000) for stage in Stage}

    expected = {Stage.PREFILL: 3, Stage.TALKER: 3, Stage.PREDICTOR: 2, Stage.CODEC: 1}
    assert lengths == expected
