"""What runs next: the work that must start soonest, with everyone ready for the same stage.

    latest_start = dry_at + sound already made but not sent - margin - time until this becomes sound

`dry_at` is the moment the listener would hear silence (playback.py). An utterance that has not
spoken yet runs dry at `opened_at + patience`, so start-up needs no rule of its own.

Ready work is kept in order, so that planning costs nothing for those who rest: an utterance is
looked at when something happened to it (`touch`) or when its time has come. Pure and deterministic:
ties are broken by slot; no clock, no randomness.
"""

from __future__ import annotations

import heapq
from math import ceil, inf

from engine.api import FRAME_SECONDS
from engine.config import SchedulerConfig
from engine.costs import CostModel
from engine.utterance import Utterance
from engine.work import Batch, Stage, Stages, Work

Entry = tuple[float, int, int, Work]  # latest start or due, slot, version of the utterance, work
Timer = tuple[float, int, int, Utterance]  # moment, slot, version, utterance

CROWD = 32  # rows below which a batch is no crowd
CAN_WAIT = 0.03  # s of slack with which a newcomer can let others go first
LONGEST = 0.04  # s that a launch of chunks may take, as nothing interrupts it
AS_SOON = 20  # launches within which a chunk that is due is cut to join a smaller one
RICH = 0.5  # s of slack with which work waits while another is late
SWEEP_AT = 64  # outdated entries a heap may hold, beside one or two for each slot


class Scheduler:
    """Chooses batches for one device.

    Args:
        config: margins and the chunk ladder.
        costs: expected durations.
        stages: asked for the most rows per batch.
    """

    def __init__(self, config: SchedulerConfig, costs: CostModel, stages: Stages) -> None:
        self._config = config
        self._costs = costs
        self._stages = stages
        self._ready: dict[Stage, list[Entry]] = {stage: [] for stage in Stage}  # heaps
        self._gathering: list[Entry] = []  # chunks that are not due yet, by when they will be
        self._resting: dict[Stage, list[Entry]] = {stage: [] for stage in Stage}  # by room_at
        self._timers: list[Timer] = []
        self._versions: dict[int, int] = {}  # slot → count of touches: older entries are void
        self._fellows = 1  # rows of the last talker batch
        self._crowded = False  # most of the last talker batch needed it

    def touch(self, utterance: Utterance, now: float) -> None:
        """Look at an utterance anew: something happened to it."""
        version = self._outdate(utterance.slot)
        dry = utterance.clock.dry_at(now)
        goes_on = self._goes_on(utterance, dry, now)
        utterance.resting = goes_on > now
        moment = utterance.clock.changes_at(now)
        for work in self._works(utterance, dry):
            is_chunk = work.stage is Stage.CODEC
            ready_at = self._chunk_due_at(work, dry, now) if is_chunk else goes_on
            if ready_at <= now:
                self._add(self._ready[work.stage], work.latest_start, work, version)
                continue
            moment = min(moment, ready_at)
            if is_chunk:
                self._add(self._gathering, ready_at, work, version)
            elif dry < inf:
                room_at = self._room_at(utterance, dry)
                self._add(self._resting[work.stage], room_at, work, version)
        if moment < inf:
            heapq.heappush(self._timers, (moment, utterance.slot, version, utterance))

    def forget(self, utterance: Utterance) -> None:
        """The utterance has ended."""
        self._outdate(utterance.slot)

    def plan(self, now: float) -> Batch | None:
        """Return the batch to launch now, or None if nothing is ready.

        The caller launches it and touches every utterance in it. Once there is a launch, work that
        would soon need one of its own comes along: chunks due within a frame, and rested
        utterances that have room for a frame.
        """
        self._wake(now)
        anchor = self._anchor(now)
        if anchor is None:
            return None
        stage, room, latest = anchor.stage, self._rows(anchor), self._company(anchor, now)
        works = self._take(self._ready[stage], anchor, room, latest)
        if stage is Stage.CODEC:
            works += self._take(self._gathering, anchor, room - len(works), now + FRAME_SECONDS)
        else:
            needy = len(works)
            if latest == inf:
                works += self._take(self._resting[stage], anchor, room - needy, now)
            if stage is Stage.TALKER:
                self._fellows = len(works)
                self._crowded = needy > max(len(works) / 2, CROWD)
        return Batch(stage, works)

    def _anchor(self, now: float) -> Work | None:
        """Choose the work that the next batch is for: the one that must start soonest.

        While most listeners are short of sound throughput counts: a newcomer that can wait lets
        the larger crowd go first, whose launch costs hardly more than its own, and finds company.
        """
        firsts = [entry for entry in map(self._first, self._ready.values()) if entry]
        if not firsts:
            return None
        first = min(firsts)
        unspoken = not first[-1].utterance.samples
        can_wait = unspoken and first[0] - now >= max(CAN_WAIT, 2 * self._step())
        if not (self._crowded and can_wait):
            return first[-1]
        return max(firsts, key=lambda entry: (len(self._ready[entry[-1].stage]), -entry[0]))[-1]

    def wake_at(self, now: float) -> float:
        """Return when time alone may make something ready, s; `inf` if nothing will."""
        timers = self._timers
        while timers and not self._valid(timers[0][1], timers[0][2]):
            heapq.heappop(timers)
        return max(now, timers[0][0]) if timers else inf

    def slack(self, utterance: Utterance, now: float) -> float:
        """Return the seconds until the utterance's next work must start; `inf` if it has none."""
        dry = utterance.clock.dry_at(now)
        starts = [work.latest_start for work in self._works(utterance, dry)]
        return min(starts, default=inf) - now

    # ---------------------------------------------------------- one utterance

    def _works(self, utterance: Utterance, dry: float) -> list[Work]:
        """What the utterance's two lanes could do, rested or not."""
        due = dry - self._config.margin
        fellows = 1
        if utterance.samples:
            due -= self._under_way()
            fellows = self._fellows
        works = []
        ready = utterance.ready_frames
        if ready:
            frames = self._chunk(utterance, ready)
            start = due - self._costs.until_sound(Stage.CODEC, 1, frames)
            works.append(Work(utterance, Stage.CODEC, frames, start))
        stage = utterance.next_stage()
        if stage:
            start = due + utterance.unsent - self._costs.until_sound(stage, fellows)
            works.append(Work(utterance, stage, 1, start))
        return works

    def _under_way(self) -> float:
        """Return the launch that a listener may have to wait for: nothing interrupts it, s.

        A late first sound is late; a late later one is silence. So only who listens counts it.
        """
        if self._fellows == 1:
            return 0.0
        chunk = self._costs.predict(Stage.CODEC, 1, self._config.chunk_ladder[-1])
        return max(self._costs.predict(Stage.PREDICTOR, self._fellows), min(chunk, LONGEST))

    def _chunk(self, utterance: Utterance, ready: int) -> int:
        """Return the largest rung of the ladder that the waiting frames fill, up to the wanted."""
        wanted = self._wanted(utterance)
        if ready >= wanted:
            return wanted
        fitting = [rung for rung in self._config.chunk_ladder if rung <= ready]
        return fitting[-1] if fitting and utterance.samples else ready

    def _wanted(self, utterance: Utterance) -> int:
        """Return the frames of the next chunk: one rung above the largest so far.

        On a slow device the ladder ends where a launch would take too long.
        """
        ladder = self._config.chunk_ladder
        larger = (rung for rung in ladder if rung > utterance.largest_chunk)
        wanted = next(larger, ladder[-1])
        if self._costs.predict(Stage.CODEC, 1, wanted) > LONGEST:
            wanted = max(utterance.largest_chunk, ladder[0])
        return max(wanted, self._least(utterance))

    def _least(self, utterance: Utterance) -> int:
        """Return the frames of the first chunk: its sound must cover the making of the second.

        That is a step among the present fellows, a decode, and the launch that may be under way.
        """
        if utterance.samples:
            return 1
        making = self._step() + self._costs.predict(Stage.CODEC, self._fellows)
        return ceil((making + self._under_way() + self._config.margin) / FRAME_SECONDS)

    def _step(self) -> float:
        """Return the seconds that one more frame takes among the present fellows."""
        fellows, costs = self._fellows, self._costs
        return costs.predict(Stage.TALKER, fellows) + costs.predict(Stage.PREDICTOR, fellows)

    def _chunk_due_at(self, work: Work, dry: float, now: float) -> float:
        """When the waiting frames go: at once if they fill a chunk or no frame will join them.

        Else they wait while one more frame can be made before their latest start: launches are not
        interrupted, so a step begun later than that would make the chunk late. While generation
        rests, frames still join now and then, and the listener's comfort sets the time.
        """
        utterance = work.utterance
        if work.frames >= self._wanted(utterance) or utterance.stalled:
            return now
        if not utterance.samples:
            return inf
        latest = work.latest_start - self._step()
        return min(latest, dry - self._config.comfort) if utterance.resting else latest

    def _goes_on(self, utterance: Utterance, dry: float, now: float) -> float:
        """When generation goes on by itself: now, unless enough is made.

        Above the stock it only rides along with others, up to `max_lead`; a frame begun is
        finished. A pause lasts until the listener ends it.
        """
        limit = utterance.options.max_lead
        if limit is None or utterance.mid_frame:
            return now
        made = utterance.unsent
        stock = min(limit, self._config.stock)
        if utterance.clock.lead_until(dry, now) + made < stock:
            return now
        return dry + made - stock if dry < inf else inf

    def _room_at(self, utterance: Utterance, dry: float) -> float:
        """When the sound ahead will have fallen below `max_lead`."""
        limit = utterance.options.max_lead
        assert limit is not None, "only a limit makes an utterance rest"
        return dry + utterance.unsent - limit

    # ---------------------------------------------------------- ordered work

    def _outdate(self, slot: int) -> int:
        version = self._versions.get(slot, 0) + 1
        self._versions[slot] = version
        return version

    def _valid(self, slot: int, version: int) -> bool:
        return self._versions[slot] == version

    def _add(self, heap: list[Entry], key: float, work: Work, version: int) -> None:
        heapq.heappush(heap, (key, work.utterance.slot, version, work))
        if len(heap) > 2 * len(self._versions) + SWEEP_AT:
            heap[:] = [entry for entry in heap if self._valid(entry[1], entry[2])]
            heapq.heapify(heap)

    def _wake(self, now: float) -> None:
        """Touch those whose time has come."""
        while self._timers and self._timers[0][0] <= now:
            _, slot, version, utterance = heapq.heappop(self._timers)
            if self._valid(slot, version):
                self.touch(utterance, now)

    def _first(self, heap: list[Entry]) -> Entry | None:
        while heap and not self._valid(heap[0][1], heap[0][2]):
            heapq.heappop(heap)
        return heap[0] if heap else None

    def _rows(self, anchor: Work) -> int:
        """Return the most rows for the anchor's batch, so that chunks do not take too long."""
        rows = self._stages.rows(anchor.stage)
        if anchor.stage is not Stage.CODEC:
            return rows
        while rows > 1 and self._costs.predict(Stage.CODEC, rows, anchor.frames) > LONGEST:
            rows //= 2
        return rows

    def _company(self, anchor: Work, now: float) -> float:
        """Return the latest start up to which others ride along: everyone, if time allows.

        Company makes a launch longer. An anchor that is late for it takes only those who would be
        late soon; the rich can wait.
        """
        rows = len(self._ready[anchor.stage])
        alone = self._costs.predict(anchor.stage, 1, anchor.frames)
        longer = self._costs.predict(anchor.stage, rows, anchor.frames) - alone
        return inf if now + longer <= anchor.latest_start else now + RICH

    def _take(self, heap: list[Entry], anchor: Work, room: int, until: float) -> list[Work]:
        """Take up to `room` works that can join the anchor, with keys up to `until`.

        A codec batch shares its number of frames. Who has more is cut to the anchor's number only
        if due about as soon, as this device counts: a cut chunk needs another launch.
        """
        soon = AS_SOON * self._costs.predict(anchor.stage, 1, anchor.frames)
        works: list[Work] = []
        unfit: list[Entry] = []
        while len(works) < room:
            entry = self._first(heap)
            if entry is None or entry[0] > until:
                break
            work = heapq.heappop(heap)[-1]
            if work.frames == anchor.frames:
                works.append(work)
            elif work.frames > anchor.frames and work.latest_start <= anchor.latest_start + soon:
                works.append(work._replace(frames=anchor.frames))
            else:
                unfit.append(entry)
        for entry in unfit:
            heapq.heappush(heap, entry)
        return works
