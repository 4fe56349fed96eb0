"""LAC and APS, calibration and sets, against mapie and crepes: 10,000 rows to fit, 10,000 to answer, 100 classes."""

import warnings

import numpy as np

from benchmarks.data import single_label
from benchmarks.harness import compare
from shortlist.sets import aps, lac


class Given:
    """A fitted classifier whose inputs are its probabilities, for libraries that insist on a model."""

    _estimator_type = "classifier"

    def __init__(self, classes: int):
        self.classes_ = np.arange(classes)
        self.n_features_in_ = classes
        self.is_fitted_ = True

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: object, y: object) -> "Given":
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return X

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X.argmax(1)

    def __sklearn_tags__(self) -> object:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags("classifier", TargetTags(required=True), classifier_tags=ClassifierTags(), input_tags=InputTags())


def run() -> None:
    warnings.simplefilter("ignore")
    probs, target = single_label(20_000, 100)
    fit, answer = probs[:10_000], probs[10_000:]
    labels = target[:10_000]
    rival = Rivals(fit.double().numpy(), labels.numpy(), answer.double().numpy())
    setting = "10,000 + 10,000 rows × 100, fit and sets"
    compare(
        "conformal-aps",
        setting,
        {"shortlist": lambda: aps(0.1).fit(fit, labels)(answer), "mapie": lambda: rival.mapie("aps")},
        rounds=21,
    )
    compare(
        "conformal-lac",
        setting,
        {"shortlist": lambda: lac(0.1).fit(fit, labels)(answer), "mapie": lambda: rival.mapie("lac"), "crepes": rival.crepes},
    )


class Rivals:
    def __init__(self, fit: np.ndarray, labels: np.ndarray, answer: np.ndarray):
        self.fit = fit / fit.sum(1, keepdims=True)  # mapie insists on sums of one in float64
        self.answer = answer / answer.sum(1, keepdims=True)
        self.labels = labels
        self.model = Given(fit.shape[1])

    def mapie(self, score: str) -> object:
        from mapie.classification import SplitConformalClassifier

        rule = SplitConformalClassifier(self.model, confidence_level=0.9, conformity_score=score, prefit=True)
        rule.conformalize(self.fit, self.labels)
        return rule.predict_set(self.answer)

    def crepes(self) -> object:
        from crepes import ConformalClassifier
        from crepes.extras import hinge

        rule = ConformalClassifier()
        rule.fit(hinge(self.fit, self.model.classes_, self.labels))
        return rule.predict_set(hinge(self.answer), confidence=0.9, smoothing=False)
