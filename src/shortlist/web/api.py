"""The JSON that programs and pages get. Results have the shape of Pl@ntNet's public identify API, with more fields beside.

``query``, ``bestMatch`` and ``results[{score, species}]`` mean the same there; ``id``, ``headline``, ``rule``, ``superclass``,
``nothingKnown``, ``inSet``, ``images`` and ``model`` are ours.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import Any

from shortlist.retrieval import Results
from shortlist.web.identify import Candidate, Identification, guarantee
from shortlist.web.reference_pictures import ReferencePictures
from shortlist.web.service import Answer, Compared, Identifier

SURE, NEARLY_SURE = 0.8, 0.95  # from which a superclass is named in the headline


def identified(
    name: str, answer: Answer, digests: Sequence[str], identifier: Identifier, pictures: ReferencePictures | None, project: str
) -> dict[str, Any]:
    """What ``POST /v1/identify`` answers.

    Args:
        name: of the answer, to vote on it.
        answer: what was found.
        digests: of the photographs.
        identifier: what found it.
        pictures: of the references, if there are any.
        project: the name of the run.
    """
    found, classifier = answer.identification, identifier.classifier
    results = [_result(one, answer.references.get(one.place), pictures) for one in found.candidates]
    assert classifier.rule is not None
    return {
        "id": name,
        "query": {"project": project, "images": list(digests), "organs": ["auto"] * len(digests)},
        "bestMatch": found.answer[0].name if found.answer else None,
        "headline": headline(found),
        "results": results,
        "rule": {
            "text": classifier.rule.text,
            "guarantee": guarantee(classifier, found.photographs),
            "size": len(found.answer),
        },
        "superclass": _superclass(found),
        "nothingKnown": found.nothing_known,
        "scoresAre": "probabilities" if found.calibrated else "scores",
        "model": {"name": project, "digest": identifier.model_digest, "network": classifier.network.describe()},
    }


def headline(found: Identification) -> str:
    """The answer in a sentence.

    >>> ash, elm = (Candidate(place, name, 0.4, True) for place, name in enumerate(["ash", "elm"]))
    >>> [headline(Identification(answer, 1)) for answer in ((ash, elm), (ash,))]
    ['One of these 2.', 'Only ash is plausible (40 %).']
    >>> headline(Identification((), 1, nothing_known="It is too dark."))
    'Nothing I know. It is too dark.'
    """
    answer, above = found.answer, found.superclass
    if found.nothing_known is not None:
        return f"Nothing I know. {found.nothing_known}"
    if len(answer) == 1:
        how = percent(answer[0].probability)
        if not found.calibrated:
            return f"Only {answer[0].name} is plausible."
        sure = answer[0].probability >= NEARLY_SURE
        return f"It is {answer[0].name} ({how})." if sure else f"Only {answer[0].name} is plausible ({how})."
    first = answer[0]
    if found.calibrated and first.probability >= SURE:
        others = "the other one" if len(answer) == 2 else f"one of the other {len(answer) - 1}"
        return f"Most likely {first.name} ({percent(first.probability)}), otherwise {others}."
    within = above is not None and all(one.superclass == above.name for one in answer)
    if above is not None and above.probability >= SURE and (found.is_wide or within):
        how = "Almost sure" if above.probability >= NEARLY_SURE else "Pretty sure"
        return f"{how}: {above.name} ({percent(above.probability)}), one of these {len(answer)}."
    return f"One of these {len(answer)}."


def percent(probability: float) -> str:
    """A probability for people; never 0 % or 100 %, which nothing is.

    >>> percent(0.934), percent(0.0004), percent(0.9999), percent(0.042)
    ('93 %', '<0.1 %', '>99.9 %', '4.2 %')
    """
    if probability < 0.001:
        return "<0.1 %"
    if probability > 0.999:
        return ">99.9 %"
    return f"{100 * probability:.0f} %" if 0.1 <= probability <= 0.99 else f"{100 * probability:.1f} %"


def _result(candidate: Candidate, compared: Compared | None, pictures: ReferencePictures | None) -> dict[str, Any]:
    named = {"scientificNameWithoutAuthor": candidate.name, "scientificNameAuthorship": "", "scientificName": candidate.name}
    above = candidate.superclass
    genus = {"scientificNameWithoutAuthor": above, "scientificNameAuthorship": "", "scientificName": above}
    images = [] if compared is None or pictures is None else _images(compared, pictures)
    # Scores without a link may be anything; JSON has no infinity.
    score = candidate.probability if math.isfinite(candidate.probability) else None
    species = {**named, "genus": genus if above is not None else None}
    return {"score": score, "inSet": candidate.in_set, "species": species, "images": images}


def _images(compared: Compared, pictures: ReferencePictures) -> list[dict[str, Any]]:
    kinds = [("similar", number) for number in compared.similar] + [("typical", number) for number in compared.typical]
    return [{"kind": kind, "url": picture_urls(number, pictures.key), **pictures.credit(number)} for kind, number in kinds]


def picture_urls(number: int, key: str) -> dict[str, str]:
    """Where the picture of a reference is, small and larger; the key says of which references, for pages and browsers that
    remember it after the server has others."""
    return {letter: f"/references/{number}/{size}.jpg?of={key}" for letter, size in (("s", "small"), ("o", "large"))}


def key_of(text: str) -> str:
    """A short key by which a browser does not take the picture of one thing for that of another with its number.

    >>> key_of("oak.jpg")
    '2d77b541'
    """
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def _superclass(found: Identification) -> dict[str, Any] | None:
    above = found.superclass
    if above is None:
        return None
    return {"name": above.name, "score": above.probability, "classes": above.classes, "wide": found.is_wide}


def searched(found: Results, rows: int, illustrated: bool) -> dict[str, Any]:
    """What ``GET /v1/search`` answers: the rows that were found, without the paths of their files."""
    results = []
    for result in found:
        record = result.to_json()
        record["columns"] = {name: value for name, value in record["columns"].items() if name != "path"}
        record["score"] = record["score"] if math.isfinite(record["score"]) else None
        picture = {"url": {"s": f"/search/pictures/{result.row}.jpg?of={key_of(result.id)}"}} if illustrated else {}
        results.append({**record, **picture})
    return {"query": found.query.text, "rows": rows, "note": found.note, "results": results}


def problem(status: int, title: str, detail: str) -> dict[str, Any]:
    """An error in the shape of RFC 9457, ``application/problem+json``."""
    return {"type": "about:blank", "title": title, "status": status, "detail": detail}
