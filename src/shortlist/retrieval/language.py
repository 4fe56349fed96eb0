"""The query language: ``fork and apple and not knife``, ``at least 2 of (car, bus)``, ``count >= 3``, ``fork > 0.8``.

    query      = and-chain { "or" and-chain }
    and-chain  = operand { "and" operand }
    operand    = "not" operand | "(" query ")" | how-many | "count" sign whole | label [ sign probability ]
    how-many   = ( "at" "least" | "at" "most" | "exactly" ) whole "of" "(" query { "," query } ")"

Nesting and length are checked before anything recurses. Every error is a sentence and a caret below its place.
"""

import itertools
from collections.abc import Sequence

from shortlist.errors import InputError
from shortlist.retrieval.names import AmbiguousError, Names, UnknownError, shown
from shortlist.retrieval.tokens import MOST_DEPTH, QueryError, Token, checked_tokens, too_deep
from shortlist.retrieval.tree import And, Condition, Count, Label, Node, Not, Of, Or

COMMA = 'commas separate only the parts of at least 2 of (…): write "and" or "or"'


def parse(query: str, classes: Sequence[str]) -> tuple[Node, dict[int, int]]:
    """Parse a query: its tree, and the place of each label's first occurrence.

    >>> parse("fork and not knife", ["fork", "knife"])
    (And(parts=(Label(position=0), Not(part=Label(position=1)))), {0: 0, 1: 13})
    """
    if not isinstance(query, str):
        raise InputError(f"query: expected a text such as 'fork and not knife', got {type(query).__name__}")
    parser = _Parser(query, Names(classes))
    return parser.whole(), parser.places


class _Parser:
    """A recursive-descent parser; ``operand`` and ``expression`` call each other once for each level of nesting."""

    def __init__(self, query: str, names: Names) -> None:
        self.query, self.names = query, names
        self.tokens, self.at, self.depth = checked_tokens(query, names), 0, 0
        self.places: dict[int, int] = {}

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    @property
    def last(self) -> Token | None:
        return self.tokens[self.at - 1] if self.at else None

    def accept(self, kind: str) -> Token | None:
        """Consume and return the next token if it is of this kind; otherwise None."""
        token = self.next
        if token.kind != kind:
            return None
        self.at += 1
        return token

    def whole(self) -> Node:
        if self.next.kind == "end":
            raise self.error("the query is empty: write labels, such as fork and not knife", self.next)
        tree = self.expression()
        if self.next.kind != "end":
            raise self.stray(self.next)
        return tree

    def expression(self) -> Node:
        alternatives: list[Node] = []
        while True:
            factors = [self.operand()]
            while self.accept("and"):
                factors.append(self.operand())
            alternatives.append(factors[0] if len(factors) == 1 else And(tuple(factors)))
            if not self.accept("or"):
                return alternatives[0] if len(alternatives) == 1 else Or(tuple(alternatives))

    def operand(self) -> Node:
        token = self.next
        if token.kind in ("word", "name"):
            return self.label_or_condition()
        if token.kind == "count":
            return self.count()
        if token.kind in ("not", "(", "at", "exactly"):
            self.depth += 1
            if self.depth > MOST_DEPTH:
                raise too_deep(self.query, token)
            node = self.nested(token)
            self.depth -= 1
            return node
        raise self.no_operand(token)

    def nested(self, token: Token) -> Node:
        if token.kind in ("at", "exactly"):
            return self.how_many()
        self.at += 1
        if token.kind == "not":
            return Not(self.operand())
        node = self.expression()
        if not self.accept(")"):
            raise self.stray(self.next)
        return node

    def label_or_condition(self) -> Node:
        token = self.next
        position = self.label(token)
        self.at += 1
        self.places.setdefault(position, token.start)
        sign = self.accept("sign")
        if not sign:
            return Label(position)
        if sign.value == "=":
            raise self.error("probabilities are compared with >, >=, < or <=, not with =", sign)
        return Condition(position, sign.value, self.probability())

    def label(self, token: Token) -> int:
        try:
            return self.names.position(token.value)
        except AmbiguousError as problem:
            raise self.error(str(problem), token) from None
        except UnknownError as problem:
            words = itertools.takewhile(lambda t: t.kind == "word", self.tokens[self.at : self.at + 4])
            several = " ".join(word.value for word in words)
            hint = self.names.phrase(self.query, token.start) or self.names.nearest(token.value, several)
            raise self.error("; ".join(filter(None, [str(problem), hint])), token) from None

    def probability(self) -> float:
        token = self.accept("number")
        if not token:
            raise self.error("expected a probability, such as 0.8 or 80%", self.next)
        mantissa, _, exponent = token.value.lower().partition("e")
        percent = self.accept("%") is not None
        value = float(f"{mantissa}e{int(exponent or 0) - 2 * percent}")  # 80% as the decimal 80e-2, which is rounded once
        if not 0 <= value <= 1:
            typed = token.value + "%" * percent
            hint = f"; in percent it is {typed}%" if not percent and 1 < value <= 100 else ""
            raise self.error(f"expected a probability from 0 to 1, or from 0% to 100%, got {shown(typed)}{hint}", token)
        return value

    def whole_number(self, what: str, least: int) -> tuple[int, Token]:
        """A whole number from ``least`` on, and its token."""
        token = self.next
        self.at += token.kind == "number"
        digits = token.value.removeprefix("+")
        number = int(digits[:18]) if digits.isdigit() else -1  # more digits make no difference
        if token.kind != "number" or number < least or self.next.kind == "%":
            got = f", got {shown(token.value + '%' * (self.next.kind == '%'))}" if token.value else ""
            raise self.error(f"{what}: expected a whole number from {least}{got}", token)
        return number, token

    def count(self) -> Node:
        token = self.next
        self.at += 1
        sign = self.accept("sign")
        if not sign:
            raise self.error(self.with_quotes("count needs a comparison, such as count >= 3", token), token)
        return Count(sign.value, self.whole_number(f"count {sign.value}", 0)[0])

    def how_many(self) -> Node:
        first = self.next
        self.at += 1
        how = "exactly"
        if first.kind == "at":
            second = self.accept("least") or self.accept("most")
            if not second:
                raise self.error(self.with_quotes('expected "least" or "most" after "at": at least 2 of (…)', first), self.next)
            how = f"at {second.kind}"
        number, place = self.whole_number(how, 1 if how == "at least" else 0)
        for kind in ("of", "("):
            if not self.accept(kind):
                raise self.error(f"expected {kind}: write {how} {number} of (car, bus)", self.next)
        parts = [self.expression()]
        while self.accept(","):
            parts.append(self.expression())
        if not self.accept(")"):
            raise self.stray(self.next)
        if number > len(parts):
            those = "1 part" if len(parts) == 1 else f"{len(parts)} parts"
            sentence = f"{how} {number} of {those}: expected at most {len(parts)}; parts are separated by commas"
            raise self.error(sentence, place)
        return Of(0 if how == "at most" else number, len(parts) if how == "at least" else number, tuple(parts))

    def error(self, sentence: str, token: Token) -> QueryError:
        return QueryError(sentence, self.query, token.start)

    def with_quotes(self, sentence: str, token: Token) -> str:
        """The sentence, with a hint to quotes if a label has this name."""
        hint = self.names.in_quotes(token.value)
        return f"{sentence}; {hint}" if hint else sentence

    def no_operand(self, token: Token) -> QueryError:
        """The error where a label is expected and something else found."""
        after = f" after {shown(self.last.value)}" if self.last else ""
        if token.kind == "number":
            hint = self.names.in_quotes(token.value) or "write the label of a condition first: fork > 0.8"
            return self.error(f"expected a label, got the number {shown(token.value)}; {hint}", token)
        if token.kind in ("least", "most", "of"):
            sentence = f"{shown(token.value)} is a keyword, as in at least 2 of (car, bus)"
            return self.error(self.with_quotes(sentence, token), token)
        if token.kind == ",":
            return self.error(COMMA if not self.depth else f"a label is missing{after}", token)
        got = " before " + shown(token.value) if token.value else ""
        return self.error(self.with_quotes(f"a label is missing{after or got}", token), token)

    def stray(self, token: Token) -> QueryError:
        """The error where an operator is expected and something else found."""
        last = self.last
        if token.kind == ",":
            return self.error(COMMA, token)
        if token.kind == "%":
            return self.error("% is allowed only after the number of a probability: fork > 80%", token)
        if token.kind == "sign":
            return self.error("a comparison has one label and one number: fork > 0.2 and fork < 0.8", token)
        if token.kind == "number" and last and last.kind in ("word", "name"):
            return self.error(
                f"expected a comparison between {shown(last.value)} and {shown(token.value)}: >, >=, < or <=", token
            )
        phrase = self.names.phrase(self.query, last.start) if last and last.kind == "word" else ""
        pair = f" between {shown(last.value)} and {shown(token.value)}" if last else ""
        return self.error("; ".join(filter(None, [f'expected "and" or "or"{pair}', phrase])), token)
