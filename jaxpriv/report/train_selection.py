"""`jaxpriv train` with a [selection]: the best of a random number of trainings, within one target
of them all.
"""

import json
import math
from pathlib import Path

from jaxpriv.report.selected import sentence
from jaxpriv.report.train import Job, loaded
from jaxpriv.report.train_config import candidates_of, config_of
from jaxpriv.report.training import certify_training
from jaxpriv.training.best import best_of
from jaxpriv.training.selection import Selection, tries_of

_SCORE = "test_accuracy"
_NOTHING = (
    "The number of trainings was drawn as 0: nothing was trained, and nothing is told. To start "
    "again is another selection, which costs as much again."
)


class SelectionJob:
    """A selection among trainings that a configuration describes; its epsilon is that of all.
    Raises: ValueError for what can't be done.
    """

    def __init__(self, config):
        self.config = config
        self.candidates = candidates_of(config)
        table = config["selection"]
        self._tries = tries_of(table["tries"], table["mean"], table["eta"])
        self._read = loaded(config)
        target = config["privacy"]["epsilon"]
        one = Selection.epsilon_of_each(self._tries, self._plans, target)
        self.selection = Selection(self._tries, self._plans(one))
        self.jobs = [Job(config_of(config, candidate, one), self._read, plan)
                     for candidate, plan in zip(self.candidates, self.selection.plans)]

    def _plans(self, epsilon):
        """Of trainings with this epsilon each; those that differ in learning rates or clipping
        norms have the same plan.
        """
        plans: dict = {}
        found = []
        for candidate in self.candidates:
            config = config_of(self.config, candidate, epsilon)
            spent = {name: value for name, value in config["privacy"].items()
                     if name != "clip_norm"}
            key = json.dumps([spent, config["model"]])
            if key not in plans:
                plans[key] = Job(config, self._read).plan
            found.append(plans[key])
        return tuple(found)

    @property
    def _sentence(self):
        epsilon = self.selection.epsilon()
        return sentence(self.selection, epsilon if math.isfinite(epsilon) else None)

    def told(self):
        """What is said before the trainings, in sentences."""
        return f"{len(self.candidates)} candidates. {self._sentence}"

    def spending(self):
        """What the selection would spend, in words and numbers."""
        plan = self.selection.plans[0]
        kinds = dict.fromkeys(each.describe() for each in self.selection.different)
        return {
            "mechanism": " Or: ".join(kinds),
            "candidates": len(self.candidates),
            "batches": "; or ".join(dict.fromkeys(p.sampling for p in self.selection.different)),
            "protects": plan.adjacency,
            "target": f"epsilon = {self.config['privacy']['epsilon']:g} (worst case), of the "
                      "selection",
            "worst case": self._sentence,
        }

    def train(self, folder, resume, progress, then):
        """Select, or go on; then: (`Best`) -> None. progress is not shown: it would tell how many
        trainings there are.
        """
        del progress
        run = self.config["run"]
        jobs = {json.dumps(each): job for each, job in zip(self.candidates, self.jobs)}
        first = self.jobs[0]
        return best_of(lambda candidate: jobs[json.dumps(candidate)].trainer, self.candidates,
                       first.examples, users=first.users, tries=self._tries,
                       score=lambda model: first.evaluate(model)[_SCORE],
                       seed=run["seed"], folder=folder, resume=resume,
                       plans=self.selection.plans, evaluate=first.evaluate,
                       evaluate_every=run["evaluate_every"],
                       checkpoint_every=run["checkpoint_every"], settings=self.config, then=then)

    def certify(self, best, folder):
        """Certify what was selected. Returns the certificate, or what is said where nothing was."""
        if best.trained is None:
            return {"selection": _NOTHING}
        (Path(folder) / "config.json").write_text(json.dumps(self.config, indent=2) + "\n")
        settings = {"selected": best.candidate, **self.config}
        return certify_training(best.trained, folder, settings=settings)
