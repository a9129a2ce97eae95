"""Training, from a recipe to `final/`: the whole loop, top to bottom.

A run is a pure function of recipe, manifests, tokens and tree. Its data order is computed
(`training/plan.py`), each step seeds its own chance, and everything else that a step needs is saved
with the model: so a run that was killed and started again ends with the same weights.
"""

import itertools
import math
import time
from collections.abc import Generator
from contextlib import ExitStack, closing
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from torch import nn

from arborvox.config import Recipe
from arborvox.console import say, warn
from arborvox.data import Batch
from arborvox.errors import ArborvoxError
from arborvox.files import hold
from arborvox.model.asr import ASR
from arborvox.model.checkpoint import load_weights, save_checkpoint, save_frozen
from arborvox.model.memory import keep_freed_memory
from arborvox.model.precision import autocast, choose_precision
from arborvox.model.products import keep_code_of_products
from arborvox.model.warm_start import warm_start
from arborvox.tokens import Tokenizer
from arborvox.training.curves import draw_curves
from arborvox.training.ending import (
    TrainResult,
    blind_steps_error,
    describe_result,
    goes_on_blindly,
    refuse_broken_weights,
)
from arborvox.training.evaluation import DevScore, evaluate
from arborvox.training.interrupts import StopRequest, catch_interrupts
from arborvox.training.loader import explain_killed_worker, load_batches, plain_orders
from arborvox.training.optimizer import average_weights, make_optimizer
from arborvox.training.plain_start import (
    KEPT_WAITING,
    begins_plain,
    is_astray,
    set_plain,
    why_regularize,
)
from arborvox.training.plan import Planner, at_own_speed, stream_orders
from arborvox.training.preparation import TrainingData, prepare_data
from arborvox.training.ranks import Ranks, exchange_gradients, join_ranks
from arborvox.training.records import Records, StepMeasures, live_line, read_records
from arborvox.training.schedule import make_schedule, warn_of_long_warmup
from arborvox.training.skipped import SkippedList
from arborvox.training.state import (
    Evaluation,
    Progress,
    RunFolder,
    explain_full_disk,
    load_state,
    newest_common_state,
    pack_optimizer,
    save_state,
    seed_step,
    unpack_optimizer,
)
from arborvox.training.states import keep_states
from arborvox.tree import load_tree


def train(
    recipe: Recipe,
    *,
    out: Path,
    manifests: Path,
    tokens: Path,
    tree: Path | None,
    same_start: bool = False,
) -> TrainResult:
    """Train a recipe into the folder `out`, or go on with what is there.

    same_start: a run that goes on may name its first weights by another path than it began with.
    """
    keep_freed_memory()
    keep_code_of_products()
    with join_ranks() as ranks, catch_interrupts() as stop, ExitStack() as held:
        run = RunFolder(out)
        if ranks.first:
            refusal = f"Another `arborvox train` is at work in {out}; choose another --out."
            held.enter_context(hold(run.lock, refusal))
            run.claim(recipe, same_start=same_start)
        ranks.wait()
        with explain_full_disk(run), explain_killed_worker():
            data = prepare_data(run, recipe, manifests, tokens, ranks)
            result = Trainer(recipe, run, data, tokens, tree, ranks, stop).train()
        if ranks.first:
            describe_result(result)
        return result


class Trainer:
    """One process's part in a run: set up, step after step, finish."""

    def __init__(
        self,
        recipe: Recipe,
        run: RunFolder,
        data: TrainingData,
        tokens: Path,
        tree: Path | None,
        ranks: Ranks,
        stop: StopRequest,
    ) -> None:
        self.recipe, self.config, self.run, self.data = recipe, recipe.train, run, data
        self.ranks, self.stop = ranks, stop
        self.skipped = SkippedList(run.skipped)
        self.tokens = tokens
        self.tokenizer = Tokenizer.load(tokens)
        self.tree = load_tree(tree, self.tokenizer.units) if tree else None

        # The model, and where it stands.
        self.model = self._draw_model(step=0).to(ranks.device)
        self.optimizer = make_optimizer(self.model, self.config)
        state = newest_common_state(run)
        if state is not None:
            self.progress = self._resume(state)
            if self.progress.outgrew(self.config):
                raise ArborvoxError(
                    f"{run.root} has gone {self.progress.step} steps, further than "
                    "train.max_steps, train.max_epochs or train.patience now allow; choose "
                    "another --out."
                )
        else:
            precision = choose_precision(self.config.precision, ranks.device, recipe.model.width)
            plain = begins_plain(self.config, self.model, data)
            self.progress = Progress(precision=precision, plain=plain)
            self.model.encoder.load_start()
            self._warm_start()
        self._keep_states()
        # Noises that are not there are missed now, and not when the alignment has been found.
        self.data.training_reader(recipe.augment)
        if self.config.compile:
            # Layer by layer: the compiler fails on the symbolic sizes of the subsampling.
            for layer in self.model.encoder.layers:
                layer.compile(dynamic=True)
        self.given = self.model.encoder.given_parameters()
        self.network: nn.Module = ranks.wrap(self.model)

        # How long, and how fast.
        self.planner = Planner(
            table=data.train,
            batch_s=self.config.batch_s,
            speeds=recipe.augment.speeds,
            language_temperature=self.config.language_temperature,
            duration_jitter=self.config.duration_jitter,
            mixed_shards=self.config.mixed_shards,
            seed=self.config.seed,
        )
        num_batches = len(self.planner.plan(0)) * self.config.max_epochs
        self.total_steps = self.config.max_steps or -(-num_batches // self.config.accumulate)
        if ranks.first:
            warn_of_long_warmup(self.config, self.total_steps)
        self.rate = make_schedule(
            self.config, width=recipe.model.width, total_steps=self.total_steps
        )

    def _draw_model(self, step: int) -> ASR:
        """Make the model, with first weights by the run's seed and a step."""
        recipe = self.recipe
        seed_step(self.config.seed, step, rank=0)
        files = self.run.encoder_files(recipe)
        model = ASR(recipe.model, recipe.features, len(self.tokenizer), self.tree, files)
        if self.data.cmvn is not None:
            model.encoder.set_statistics(self.data.cmvn)
        return model

    def train(self) -> TrainResult:
        """Take steps until the recipe says stop, evaluating and saving on the way."""
        progress, config = self.progress, self.config
        records = Records(self.run, progress) if self.ranks.first else None
        interrupted = False
        with (
            closing(self._groups()) as groups,  # or workers would outlive an error
            live_line(self.total_steps, progress.step, hidden=not self.ranks.first) as line,
        ):
            while not self._enough():
                began = time.monotonic()
                group = next(groups, None)
                if group is None:
                    break
                measured = self._step(group)
                progress.elapsed_s += time.monotonic() - began
                if records is not None:
                    records.write("train", progress.step, asdict(measured))
                line.update(progress.step, measured.loss, progress.audio_s / progress.elapsed_s)

                # Ranks agree on stopping, or one would wait for the others for ever.
                interrupted = self.ranks.sum([self.stop.asked])[0] > 0
                due = progress.step % (config.evaluate_every or config.save_every) == 0
                if due:  # also when interrupted: going on must find what it would have found
                    self._evaluate(records)
                if due or interrupted or progress.step % config.save_every == 0:
                    self._save()
                if interrupted:
                    break
                if goes_on_blindly(self.progress):
                    self.progress.bad_in_a_row = 0
                    self._save()
                    raise blind_steps_error(self.run, self.progress)
        dev = None if interrupted else self._finish(records)
        if records is not None:
            records.close()
            draw_curves(read_records(self.run.metrics), self.run.curves, self.recipe.name)
        return TrainResult(self.run.root, progress, interrupted, dev)

    def _groups(self) -> Generator[list[Batch], None, None]:
        """Load what each step learns from; anew from where the run stands once it is aligned."""
        while True:
            plain = self.progress.plain
            set_plain(self.model, plain=plain)
            with closing(self._batches(plain=plain)) as batches:
                while self.progress.plain == plain:
                    group = list(itertools.islice(batches, self.config.accumulate))
                    if not group:
                        return
                    yield group

    def _batches(self, *, plain: bool) -> Generator[Batch, None, None]:
        """Load this rank's batches from where the run stands; plain ones as they were recorded."""
        orders = stream_orders(
            self.planner,
            epoch=self.progress.epoch,
            batch=self.progress.batch,
            max_epochs=self.config.max_epochs,
            rank=self.ranks.rank,
            world=self.ranks.world,
        )
        reader = self.data.training_reader(None if plain else self.recipe.augment)
        return load_batches(reader, at_own_speed(orders) if plain else orders, self.config.workers)

    def _step(self, group: list[Batch]) -> StepMeasures:
        """Update the weights once, with the gradient of all batches of all ranks together."""
        progress, ranks = self.progress, self.ranks
        progress.step += 1
        progress.epoch, progress.batch = group[-1].epoch, group[-1].index + 1
        seed_step(self.config.seed, progress.step, ranks.rank)
        rate = self.rate(progress.step)
        if progress.began:  # new weights are warmed up, too
            rate = min(rate, self.rate(progress.step - progress.began))
        for options in self.optimizer.param_groups:
            options["lr"] = rate * options["rate_factor"]
        self._wake_encoder()

        num_targets = ranks.sum([sum(batch.num_targets for batch in group)])[0]
        total = ctc = attention = 0.0
        num_infeasible = 0
        for number, batch in enumerate(group):
            # Once a step is enough, with the last batch.
            with exchange_gradients(self.network, now=number + 1 == len(group)):
                with autocast(ranks.device, progress.precision):
                    losses = self.network(*batch.inputs(ranks.device))
                # Ranks' gradients are averaged, and we want their sum: hence `world`.
                weight = ranks.world / num_targets if batch.utterances and num_targets else 0.0
                (losses.total * weight).backward()
            if batch.utterances:
                total += float(losses.total.detach())
                ctc += float(losses.ctc)
                attention += float(losses.attention)
                num_infeasible += losses.num_infeasible
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip))
        sums = ranks.sum(
            [
                total,
                ctc,
                attention,
                num_infeasible,
                sum(len(batch.skipped) for batch in group),
                sum(batch.num_frames for batch in group),
                sum(batch.num_padded_frames for batch in group),
            ]
        )
        total, ctc, attention = sums[:3]
        good = num_targets > 0 and math.isfinite(norm) and math.isfinite(total)
        if good:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

        self.skipped.note(group, first=progress.unreadable == 0)
        progress.infeasible += int(sums[3])
        progress.unreadable += int(sums[4])
        progress.frames += int(sums[5])
        progress.padded_frames += int(sums[6])
        progress.audio_s += sums[5] * self.data.input.frame_s
        progress.bad_steps += not good
        progress.bad_in_a_row = 0 if good else progress.bad_in_a_row + 1
        count = max(num_targets, 1.0)
        if good:
            progress.loss_sum += total / count
            progress.loss_steps += 1
        return StepMeasures(
            epoch=progress.epoch,
            loss=total / count if good else None,
            ctc=ctc / count if good else None,
            attention=attention / count if good else None,
            gradient_norm=norm if good else None,
            learning_rate=rate,
            audio_s=progress.audio_s,
            padding=progress.padding,
            unreadable=progress.unreadable,
            infeasible=progress.infeasible,
            bad_steps=progress.bad_steps,
        )

    def _enough(self) -> bool:
        """Say whether the recipe's last step is done, or patience is at its end."""
        if self.config.max_steps is not None and self.progress.step >= self.config.max_steps:
            return True
        patience = self.config.patience
        return patience is not None and self.progress.evaluations_without_gain >= patience

    def _evaluate(self, records: Records | None) -> None:
        """Score the weights as they are, on the development set or else by the training loss."""
        progress = self.progress
        score = progress.loss_sum / max(progress.loss_steps, 1)
        if len(self.data.dev):
            dev = self._dev_score()
            score = dev.score
            if records is not None:
                records.write("dev", progress.step, dev.measures())
                say(f"step {progress.step}: {dev}")
            if progress.plain:
                reason = why_regularize(self.config, progress, dev, self.total_steps)
                progress.plain = reason is None
                if reason is not None and records is not None:
                    say(f"{reason}; {KEPT_WAITING} from now on")
        # A score that is no number must not become the best one.
        progress.evaluations.append(
            Evaluation(progress.step, score if math.isfinite(score) else math.inf)
        )
        progress.loss_sum, progress.loss_steps = 0.0, 0
        if self._learns_all() and is_astray(progress, self.total_steps):
            self._begin_again()

    def _learns_all(self) -> bool:
        """Whether all that the model knows is from this run."""
        return self.config.init_from is None and self.recipe.model.encoder != "pretrained"

    def _begin_again(self) -> None:
        """Draw the weights anew; steps and data go on."""
        progress = self.progress
        self.model.load_state_dict(self._draw_model(progress.step).state_dict())
        self.optimizer.state.clear()
        progress.began = progress.step
        # The checkpoint of this step will hold the new weights, not those that were scored.
        progress.evaluations[-1].score = math.inf
        if self.ranks.first:
            say(f"step {progress.step}: the alignment went astray; begins again with new weights")

    def _dev_score(self) -> DevScore:
        orders = plain_orders(self.data.dev, self.config.batch_s, self.ranks.rank, self.ranks.world)
        reader = self.data.dev_reader()
        with closing(load_batches(reader, orders, self.config.workers)) as batches:
            return evaluate(
                self.model,
                batches,
                self.tokenizer,
                self.data.dev.languages,
                self.ranks,
                self.progress.precision,
            )

    def _save(self) -> None:
        """Write the model, then the state that refers to it; then delete what nobody needs."""
        refuse_broken_weights(self.model, self.run, self.progress.step)
        if self.ranks.first:
            self._save_model(self.run.checkpoint(self.progress.step), self.frozen)
            folder = self.run.states / self.run.checkpoint(self.progress.step).name
            save_state(folder, self.progress, pack_optimizer(self.model, self.optimizer))
            self.run.prune(self.progress, self.config.keep, self.config.average_best)
        self.ranks.wait()

    def _save_model(self, folder: Path, frozen: Path | None = None) -> None:
        save_checkpoint(folder, self.model, self.recipe, self.tokenizer, self.tree, frozen=frozen)

    @cached_property
    def frozen(self) -> Path | None:
        """Where the weights are that never change, written once for all checkpoints."""
        return self.run.frozen if save_frozen(self.run.frozen, self.model) else None

    def _resume(self, state: Path) -> Progress:
        """Take up model, optimizer and progress as they were saved."""
        progress, tensors = load_state(state)
        checkpoint = self.run.checkpoint(progress.step)
        try:
            self.model.load_state_dict(load_weights(checkpoint, self.ranks.device))
        except (OSError, ArborvoxError, RuntimeError) as error:
            raise ArborvoxError(
                f"{checkpoint} is damaged ({str(error).splitlines()[0]}); "
                f"choose another --out, or start from another checkpoint with train.init_from."
            ) from None
        try:
            unpack_optimizer(self.model, self.optimizer, tensors)
        except ArborvoxError as error:
            raise ArborvoxError(f"{state} does not fit: {error}") from None
        if self.ranks.first:
            say(f"{self.run.root}: going on after step {progress.step}")
        return progress

    def _warm_start(self) -> None:
        """Take over what fits from another run, where the recipe names one."""
        if self.config.init_from is not None:
            source, outputs = Path(self.config.init_from), self.config.init_outputs
            report = warm_start(self.model, source, self.tokenizer, outputs=outputs)
            if self.ranks.first:
                say(str(report))

    def _keep_states(self) -> None:
        """Let an encoder that does not learn run once over the corpus, and never again."""
        augment = self.recipe.augment
        if self.model.encoder.states_input is None:
            return
        if augment.noise_folder is not None or augment.reverb_folder is not None:
            warn("Noises and rooms are drawn anew each time, so the encoder runs in every step.")
            return
        self.data = keep_states(
            self.data,
            self.model.encoder,
            Path(self.recipe.features.cache or self.run.data / "states"),
            speeds=augment.speeds,
            precision=self.progress.precision,
            ranks=self.ranks,
            stop=self.stop,
        )

    def _wake_encoder(self) -> None:
        """Let a pretrained encoder rest in the first steps, and learn from then on."""
        first = self.config.freeze_steps + 1
        if not self.given or self.config.freeze_steps == 0:
            return
        learns = self.progress.step >= first
        if self.given[0].requires_grad != learns:
            for parameter in self.given:
                parameter.requires_grad_(learns)
            self.network = self.ranks.wrap(self.model)

    def _finish(self, records: Records | None) -> DevScore | None:
        """Average the best checkpoints into `final/`, or take the best alone if that is better."""
        progress = self.progress
        if not progress.evaluations or progress.evaluations[-1].step != progress.step:
            self._evaluate(records)
        progress.finished = True
        self._save()
        best = progress.best(self.config.average_best)
        folders = [self.run.checkpoint(evaluation.step) for evaluation in best]
        self.model.load_state_dict(average_weights(folders))
        dev = self._dev_score() if len(self.data.dev) else None
        # Early in training the checkpoints lie too far apart for their mean to be any good.
        if dev is not None and dev.score > best[0].score:
            self.model.load_state_dict(average_weights(folders[:1]))
            dev = self._dev_score()
            folders = folders[:1]
        refuse_broken_weights(self.model, self.run, self.progress.step)
        if self.ranks.first:
            self._save_model(self.run.final)
            say(f"final: mean of {', '.join(sorted(folder.name for folder in folders))}")
        if records is not None and dev is not None:
            records.write("final", progress.step, dev.measures())
        self.ranks.wait()
        return dev
