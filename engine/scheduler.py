"""What runs next: the work that must start soonest, with everyone ready for the same stage.

    latest_start = dry_at + sound already made but not sent - margin - time until this becomes sound

`dry_at` is the moment the listener would hear silence (playback.py). An utterance that has not
spoken yet runs dry at `opened_at + patience`, so start-up needs no rule of its own.

An utterance is looked at when something happened to it (`touch`) or when its time has come; ready
work is kept in order (agenda.py), so that planning costs nothing for those who rest. Pure and
deterministic: ties are broken by slot; no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import heappop, heappush
from math import inf

from engine.agenda import Agenda, Entry
from engine.api import FRAME_SECONDS
from engine.config import SchedulerConfig
from engine.costs import CostModel
from engine.pace import LONGEST, Pace
from engine.utterance import Utterance
from engine.work import ONE_STREAM, Batch, Stage, Stages, Stream, Work

CAN_WAIT = 0.03  # s of slack with which a newcomer can let others go first
AS_SOON = 20  # launches within which a chunk that is due is cut to join a smaller one
RICH = 0.5  # s of slack with which work waits while another is late


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
        self._agenda = Agenda(stages.streams)
        self._alone = len(stages.streams) == 1
        self._pace = Pace(config, costs, 1)

    def touch(self, utterance: Utterance, now: float) -> None:
        """Look at an utterance anew: something happened to it."""
        agenda, pace = self._agenda, self._present_pace()
        look = agenda.outdate(utterance.slot)
        dry = utterance.clock.dry_at(now)
        goes_on = self._goes_on(utterance, dry, now)
        utterance.resting = goes_on > now
        moment = utterance.clock.changes_at(now)
        if work := self._step(utterance, dry, pace):
            if goes_on <= now:
                ready = agenda.ready[self._stream(work.stage, utterance)]
                agenda.add(ready[work.stage], work.latest_start, work, look)
            elif dry < inf:
                room_at = self._room_at(utterance, dry)
                agenda.add(agenda.resting[work.stage], room_at, work, look)
                moment = min(moment, goes_on)
        if chunk := self._chunk(utterance, dry, pace):
            work, full = chunk
            due = now if full or utterance.stalled else self._chunk_due_at(work, dry, pace)
            if due <= now:
                ready = agenda.ready[self._stream(Stage.CODEC, utterance)]
                agenda.add(ready[Stage.CODEC], work.latest_start, work, look)
            elif due < inf:
                agenda.add(agenda.gathering, due, work, look)
        if moment < inf:
            agenda.remind(utterance, moment, look)

    def forget(self, utterance: Utterance) -> None:
        """The utterance has ended."""
        self._agenda.outdate(utterance.slot)

    def plan(self, now: float, streams: Collection[Stream] = ONE_STREAM) -> Batch | None:
        """Return the batch to launch now on one of `streams`, or None if nothing is ready.

        Once there is a launch, work that would soon need one of its own comes along: chunks due
        within a frame, and rested utterances that have room for a frame.
        """
        agenda = self._agenda
        for utterance in agenda.due(now):
            self.touch(utterance, now)
        found = self._anchor(now, streams)
        if found is None:
            return None
        anchor, stream = found
        stage, ready = anchor.stage, agenda.ready[stream][anchor.stage]
        room, latest = self._rows(anchor, stream), self._company(anchor, len(ready), now)
        works = self._take(ready, anchor, room, latest)
        if stage is Stage.CODEC:
            if stream is not Stream.FAST:
                due = now + FRAME_SECONDS
                works += self._take(agenda.gathering, anchor, room - len(works), due)
            return Batch(stage, works, stream)
        if latest == inf:
            works += self._take(agenda.resting[stage], anchor, room - len(works), now)
        if stage is Stage.TALKER and len(works) != self._pace.fellows:
            self._pace = Pace(self._config, self._costs, len(works))
        return Batch(stage, works, stream)

    def launched(self, batch: Batch, now: float) -> None:
        """Look anew at those in a batch, as far as its launch gave them something to do."""
        if batch.stage in (Stage.PREFILL, Stage.TALKER):
            self._add_predictors(batch)
            return
        for work in batch.works:
            if not work.utterance.awaits_code:
                self.touch(work.utterance, now)

    def _add_predictors(self, batch: Batch) -> None:
        """After a first code come the others of its frame; all else is as it was."""
        agenda, pace = self._agenda, self._present_pace()
        for work in batch.works:
            utterance = work.utterance
            ready = agenda.ready[self._stream(Stage.PREDICTOR, utterance)][Stage.PREDICTOR]
            before = pace.listener if utterance.samples else pace.newcomer
            start = work.latest_start + before[batch.stage] - before[Stage.PREDICTOR]
            follower = Work(utterance, Stage.PREDICTOR, 1, start)
            agenda.add(ready, start, follower, agenda.look(utterance.slot))

    def wake_at(self, now: float) -> float:
        """Return when time alone may make something ready, s; `inf` if nothing will."""
        return max(now, self._agenda.wake_at())

    def slack(self, utterance: Utterance, now: float) -> float:
        """Return the seconds until the utterance's next work must start; `inf` if it has none."""
        dry, pace = utterance.clock.dry_at(now), self._present_pace()
        step, chunk = self._step(utterance, dry, pace), self._chunk(utterance, dry, pace)
        starts = [work.latest_start for work in (step, chunk and chunk[0]) if work]
        return min(starts, default=inf) - now

    # ---------------------------------------------------------- one utterance

    def _stream(self, stage: Stage, utterance: Utterance) -> Stream:
        """Where a launch goes: whatever a first sound waits for passes the others."""
        if self._alone or stage is Stage.TALKER:
            return Stream.MAIN
        if stage is Stage.PREFILL:
            return Stream.FAST
        if stage is Stage.CODEC:
            return Stream.SIDE if utterance.samples else Stream.FAST
        return Stream.MAIN if utterance.frame else Stream.FAST

    def _step(self, utterance: Utterance, dry: float, pace: Pace) -> Work | None:
        """What the utterance's generation lane could do next, rested or not."""
        stage = utterance.next_stage()
        if stage is None:
            return None
        before = pace.listener[stage] if utterance.samples else pace.newcomer[stage]
        return Work(utterance, stage, 1, dry + utterance.unsent - before)

    def _chunk(self, utterance: Utterance, dry: float, pace: Pace) -> tuple[Work, bool] | None:
        """What its codec lane could do: the largest rung that the waiting frames fill.

        Returns: the work, and whether it need not wait for more frames.
        """
        ready = utterance.ready_frames
        if not ready:
            return None
        listening = utterance.samples > 0
        wanted = frames = self._wanted(utterance, pace)
        if ready < wanted:
            frames = (listening and pace.fitting_chunk(ready)) or ready
        start = dry - pace.before_chunk(frames, listening=listening)
        return Work(utterance, Stage.CODEC, frames, start), ready >= wanted

    def _wanted(self, utterance: Utterance, pace: Pace) -> int:
        """Return the frames of the next chunk: it grows from one that covers its successor."""
        wanted = pace.next_chunk(utterance.largest_chunk)
        return wanted if utterance.samples else max(wanted, pace.first_chunk)

    def _chunk_due_at(self, work: Work, dry: float, pace: Pace) -> float:
        """When frames go that do not fill a chunk, while others may join them.

        They wait while one more frame can be made before their latest start: launches are not
        interrupted, so a step begun later than that would make the chunk late. While generation
        rests, frames still join now and then, and the listener's comfort sets the time.
        """
        utterance = work.utterance
        if not utterance.samples:
            return inf
        latest = work.latest_start - pace.step
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

    def _present_pace(self) -> Pace:
        """Return the pace, with the costs as they are now."""
        if self._pace.version != self._costs.version:
            self._pace = Pace(self._config, self._costs, self._pace.fellows)
        return self._pace

    # ---------------------------------------------------------------- a batch

    def _anchor(self, now: float, streams: Collection[Stream]) -> tuple[Work, Stream] | None:
        """Choose the work that the next batch is for: the one that must start soonest.

        Where first sounds have a stream of their own, the one with the least left to do goes first:
        the mean wait is shortest so (Schrage 1968, shortest remaining processing time).

        While talker batches are full throughput counts: a newcomer whose first frame can wait lets
        a step of the others go before, so that one launch predicts its codes and theirs.
        """
        if Stream.FAST in streams and (entry := self._agenda.nearest(Stream.FAST)):
            return entry[-1], Stream.FAST
        firsts = self._agenda.firsts(streams)
        if not firsts:
            return None
        (*_, first), stream = min(firsts)
        newcomer = first.stage is Stage.PREDICTOR and not first.utterance.samples
        if newcomer and stream is Stream.MAIN:
            step = self._agenda.first(self._agenda.ready[stream][Stage.TALKER])
            if step and self._may_wait(first, now):
                return step[-1], stream
        return first, stream

    def _may_wait(self, newcomer: Work, now: float) -> bool:
        """Whether steps are full and a newcomer has time for one more."""
        pace = self._present_pace()
        full = pace.fellows >= self._stages.rows(Stage.TALKER)
        return full and newcomer.latest_start - now >= max(CAN_WAIT, 2 * pace.step)

    def _rows(self, anchor: Work, stream: Stream) -> int:
        """Return the most rows for the anchor's batch, so that chunks do not take too long."""
        rows = self._stages.rows(anchor.stage, stream)
        if anchor.stage is not Stage.CODEC:
            return rows
        while rows > 1 and self._costs.predict(Stage.CODEC, rows, anchor.frames) > LONGEST:
            rows //= 2
        return rows

    def _company(self, anchor: Work, rows: int, now: float) -> float:
        """Return the latest start up to which others ride along: everyone, if time allows.

        Company makes a launch longer. An anchor that is late for it takes only those who would be
        late soon; the rich can wait.

        Args:
            rows: at least as many as there are.
        """
        alone = self._costs.predict(anchor.stage, 1, anchor.frames)
        longer = self._costs.predict(anchor.stage, rows, anchor.frames) - alone
        return inf if now + longer <= anchor.latest_start else max(now + RICH, anchor.latest_start)

    def _take(self, heap: list[Entry], anchor: Work, room: int, until: float) -> list[Work]:
        """Take up to `room` works that can join the anchor, with keys up to `until`.

        A codec batch shares its number of frames. Who has more is cut to the anchor's number only
        if due about as soon, as this device counts: a cut chunk needs another launch.
        """
        works: list[Work] = []
        if not heap:
            return works
        soon = AS_SOON * self._costs.predict(anchor.stage, 1, anchor.frames)
        unfit: list[Entry] = []
        while len(works) < room:
            entry = self._agenda.first(heap)
            if entry is None or entry[0] > until:
                break
            work = heappop(heap)[-1]
            if work.frames == anchor.frames:
                works.append(work)
            elif work.frames > anchor.frames and work.latest_start <= anchor.latest_start + soon:
                works.append(work._replace(frames=anchor.frames))
            else:
                unfit.append(entry)
        for entry in unfit:
            heappush(heap, entry)
        return works
