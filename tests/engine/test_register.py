"""Who is heard after whom, and what is remembered of it."""

from engine.register import Register
from engine.utterance import Utterance
from tests.engine.speaking import segment, utterance


def named(name: str, *, after: str | None = None, slot: int = 0) -> Utterance:
    result = utterance(segment(), slot=slot, after=after)
    object.__setattr__(result.options, "utterance", name)
    return result


def test_successors_are_found_in_order() -> None:
    register = Register(4)
    for name, after in (("a", None), ("b", "a"), ("c", "b")):
        register.slots.allocate()
        register.add(named(name, after=after))

    assert [each.options.utterance for each in register.behind("a")] == ["b", "c"]


def test_a_predecessor_nobody_knows_leaves_nothing_behind() -> None:
    register = Register(4)
    before = len(register._successors)
    slot = register.slots.allocate()
    assert slot is not None
    orphan = named("b", after="refused", slot=slot)
    register.add(orphan)
    register.remove(orphan)

    register.prune(1e9)

    assert len(register._successors) == before


def test_nobody_is_heard_after_themselves() -> None:
    register = Register(4)
    register.slots.allocate()
    register.add(named("u", after="u"))

    assert not list(register.behind("u"))
