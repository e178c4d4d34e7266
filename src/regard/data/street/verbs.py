"""The verbs, named by their German infinitive: English 'eat' is 'essen' for people and 'fressen' for animals."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from regard.data.street.words import Agreement, Verb, read_verb

VERB_TABLE = """
buy bought bought = kaufen kauft kaufte gekauft
sell sold sold = verkaufen verkauft verkaufte verkauft
see saw seen = sehen sieht sah gesehen
find found found = finden findet fand gefunden
look+for looked looked = suchen sucht suchte gesucht
visit visited visited = besuchen besucht besuchte besucht
love loved loved = lieben liebt liebte geliebt
know knew known = kennen kennt kannte gekannt
hear heard heard = hören hört hörte gehört
write wrote written = schreiben schreibt schrieb geschrieben
sing sang sung = singen singt sang gesungen
paint painted painted = malen malt malte gemalt
repair repaired repaired = reparieren repariert reparierte repariert
need needed needed = brauchen braucht brauchte gebraucht
forget forgot forgotten = vergessen vergisst vergaß vergessen
wash washed washed = waschen wäscht wusch gewaschen
bake baked baked = backen backt backte gebacken
cook cooked cooked = kochen kocht kochte gekocht
eat ate eaten = essen isst aß gegessen
eat ate eaten = fressen frisst fraß gefressen
drink drank drunk = trinken trinkt trank getrunken
carry carried carried = tragen trägt trug getragen
pull pulled pulled = ziehen zieht zog gezogen
cross crossed crossed = überqueren überquert überquerte überquert
have had had = haben hat hatte gehabt
like liked liked = mögen mag mochte gemocht
read read read = lesen liest las gelesen
do did done = machen macht machte gemacht

help helped helped = helfen hilft half geholfen
thank thanked thanked = danken dankt dankte gedankt
follow followed followed = folgen folgt folgte gefolgt sein

give gave given = geben gibt gab gegeben
show showed shown = zeigen zeigt zeigte gezeigt
send sent sent = schicken schickt schickte geschickt
lend lent lent = leihen leiht lieh geliehen
bring brought brought = bringen bringt brachte gebracht
offer offered offered = an-bieten bietet bot geboten

sleep slept slept = schlafen schläft schlief geschlafen
work worked worked = arbeiten arbeitet arbeitete gearbeitet
play played played = spielen spielt spielte gespielt
laugh laughed laughed = lachen lacht lachte gelacht
dance danced danced = tanzen tanzt tanzte getanzt
wait waited waited = warten wartet wartete gewartet
dream dreamed dreamed = träumen träumt träumte geträumt
think thought thought = denken denkt dachte gedacht
live lived lived = wohnen wohnt wohnte gewohnt
sit sat sat = sitzen sitzt saß gesessen
stand stood stood = stehen steht stand gestanden
lie lay lain = liegen liegt lag gelegen
fit fitted fitted = passen passt passte gepasst
cost cost cost = kosten kostet kostete gekostet

go went gone = gehen geht ging gegangen sein
come came come = kommen kommt kam gekommen sein
run ran run = laufen läuft lief gelaufen sein
jump jumped jumped = springen springt sprang gesprungen sein
climb climbed climbed = klettern klettert kletterte geklettert sein
travel travelled travelled = reisen reist reiste gereist sein

call called called = an-rufen ruft rief gerufen
invite invited invited = ein-laden lädt lud geladen
open opened opened = auf-machen macht machte gemacht
close closed closed = zu-machen macht machte gemacht
pick+up picked picked = ab-holen holt holte geholt
bring+along brought brought = mit-bringen bringt brachte gebracht
throw+away threw thrown = weg-werfen wirft warf geworfen
turn+on turned turned = ein-schalten schaltet schaltete geschaltet
turn+off turned turned = aus-schalten schaltet schaltete geschaltet
try+on tried tried = an-probieren probiert probierte probiert
arrive arrived arrived = an-kommen kommt kam gekommen sein
depart departed departed = ab-fahren fährt fuhr gefahren sein
begin began begun = an-fangen fängt fing gefangen
get+up got got = auf-stehen steht stand gestanden sein
fall+asleep fell fallen = ein-schlafen schläft schlief geschlafen sein
come+back came come = zurück-kommen kommt kam gekommen sein

remember remembered remembered = sich erinnern erinnert erinnerte erinnert
look+forward looked looked = sich freuen freut freute gefreut
fear feared feared = sich fürchten fürchtet fürchtete gefürchtet
rest rested rested = sich aus-ruhen ruht ruhte geruht
hurry hurried hurried = sich beeilen beeilt beeilte beeilt

say said said = sagen sagt sagte gesagt
believe believed believed = glauben glaubt glaubte geglaubt
know knew known = wissen weiß wusste gewusst
hope hoped hoped = hoffen hofft hoffte gehofft
ask asked asked = fragen fragt fragte gefragt
try tried tried = versuchen versucht versuchte versucht

want wanted wanted = wollen will wollte gewollt
have had had = müssen muss musste gemusst

be was been = sein ist war gewesen sein
"""


def _read(table: str) -> dict[str, Verb]:
    verbs = map(read_verb, filter(None, table.splitlines()))
    return {verb.german.infinitive: verb for verb in verbs}


VERBS = _read(VERB_TABLE)
"""Every verb by its German infinitive."""


BE = VERBS["sein"]
BE_PRESENT: dict[Agreement, tuple[str, str]] = {
    "first": ("am", "bin"),
    "second": ("are", "bist"),
    "third": ("is", "ist"),
    "plural": ("are", "sind"),
}
BE_PAST: dict[Agreement, tuple[str, str]] = {
    "first": ("was", "war"),
    "second": ("were", "warst"),
    "third": ("was", "war"),
    "plural": ("were", "waren"),
}
BECOME_PRESENT: dict[Agreement, str] = {"first": "werde", "second": "wirst", "third": "wird", "plural": "werden"}
BECOME_PAST: dict[Agreement, str] = {"first": "wurde", "second": "wurdest", "third": "wurde", "plural": "wurden"}


PAST_OF_DU = ("haben", "wollen", "müssen", "mögen", "kennen", "wissen")
"""Verbs whose simple past one says to a friend; of others one says the perfect: 'du hast gerufen', not 'du riefst'."""


class EnglishGroup(NamedTuple):
    """An auxiliary, perhaps none, and the rest: 'not' and a question's subject go between them."""

    auxiliary: str
    rest: str


class Bracket(NamedTuple):
    """The finite verb and what closes the clause; `joins` when a verb-final clause writes the two as one word."""

    finite: str
    closing: str
    joins: bool = False


class Tense(Protocol):
    """A tense, a modal verb or the passive: what turns a verb into its forms."""

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """The English group; `helped` asks for an auxiliary in any case, as negation and questions do."""
        ...

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """The German bracket."""
        ...


@dataclass(frozen=True, slots=True)
class Simple:
    """Present or past, in one word."""

    past: bool

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'buys', or 'does … buy'; the verb 'be' helps itself."""
        if verb is BE:
            return EnglishGroup(_be(agreement, self.past)[0], "")
        forms = verb.english
        if helped:
            return EnglishGroup(_do(agreement, self.past), forms.base)
        return EnglishGroup("", forms.past if self.past else forms.present(agreement))

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'ruft … an'."""
        if verb is BE:
            return Bracket(_be(agreement, self.past)[1], "")
        forms = verb.german
        if self.past and agreement == "second" and forms.infinitive not in PAST_OF_DU:
            return PERFECT.german(verb, agreement)
        finite = forms.past(agreement) if self.past else forms.present(agreement)
        return Bracket(finite, forms.prefix, joins=True)


@dataclass(frozen=True, slots=True)
class Progressive:
    """What happens at a time: English says it with 'be' and 'ing', German with the simple tense."""

    past: bool

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'is … buying'."""
        return EnglishGroup(_be(agreement, self.past)[0], verb.english.progressive)

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'ruft … an'."""
        return Simple(self.past).german(verb, agreement)


@dataclass(frozen=True, slots=True)
class Perfect:
    """The present or the past perfect, in German with 'haben' or 'sein' as the verb demands."""

    past: bool

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'has … bought'."""
        have = VERBS["haben"].english
        return EnglishGroup(have.past if self.past else have.present(agreement), verb.english.participle)

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'hat … gekauft' or 'ist … gereist'."""
        auxiliary = BE if verb.german.auxiliary == "sein" else VERBS["haben"]
        return Bracket(Simple(self.past).german(auxiliary, agreement).finite, verb.german.participle)


@dataclass(frozen=True, slots=True)
class Passive:
    """The passive of an event, in German with 'werden'."""

    past: bool

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'was … bought'."""
        return EnglishGroup(_be(agreement, self.past)[0], verb.english.participle)

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'wurde … gekauft'."""
        return Bracket((BECOME_PAST if self.past else BECOME_PRESENT)[agreement], verb.german.participle)


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A modal verb, or the future, which is built like one."""

    word: str
    german_forms: dict[Agreement, str]
    link: str = ""
    """What English puts before the infinitive: 'would like to buy'."""

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'can … buy'."""
        return EnglishGroup(self.word, self.link + verb.english.base)

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'kann … kaufen'."""
        return Bracket(self.german_forms[agreement], verb.german.infinitive)


@dataclass(frozen=True, slots=True)
class ModalWithTo:
    """What English says with a full verb and 'to', and German with a modal verb."""

    tense: Simple
    modal: Verb

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'wants to buy'."""
        auxiliary, rest = self.tense.english(self.modal, agreement, helped)
        return EnglishGroup(auxiliary, f"{rest} to {verb.english.base}")

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'will … kaufen'."""
        return Bracket(self.tense.german(self.modal, agreement).finite, verb.german.infinitive)


@dataclass(frozen=True, slots=True)
class GoingTo:
    """What somebody intends: English 'is going to', in German the future."""

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        """Such as 'is … going to buy'."""
        return EnglishGroup(_be(agreement, past=False)[0], f"going to {verb.english.base}")

    def german(self, verb: Verb, agreement: Agreement) -> Bracket:
        """Such as 'wird … kaufen'."""
        return FUTURE.german(verb, agreement)


def _be(agreement: Agreement, past: bool) -> tuple[str, str]:
    return (BE_PAST if past else BE_PRESENT)[agreement]


def _do(agreement: Agreement, past: bool) -> str:
    if past:
        return "did"
    return "does" if agreement == "third" else "do"


def _forms(singular: str, second: str, plural: str) -> dict[Agreement, str]:
    return {"first": singular, "second": second, "third": singular, "plural": plural}


PRESENT = Simple(past=False)
PAST = Simple(past=True)
PROGRESSIVE = Progressive(past=False)
PAST_PROGRESSIVE = Progressive(past=True)
PERFECT = Perfect(past=False)
PAST_PERFECT = Perfect(past=True)
PASSIVE = Passive(past=False)
PASSIVE_PAST = Passive(past=True)
FUTURE = Modal("will", BECOME_PRESENT)
GOING_TO = GoingTo()
CAN = Modal("can", _forms("kann", "kannst", "können"))
COULD = Modal("could", _forms("konnte", "konntest", "konnten"))
MUST = Modal("must", _forms("muss", "musst", "müssen"))
MAY = Modal("may", _forms("darf", "darfst", "dürfen"))
MUST_NOT = Modal("must", MAY.german_forms)
"""For negated clauses: what one must not do, one 'darf' not do."""
SHOULD = Modal("should", _forms("sollte", "solltest", "sollten"))
WOULD_LIKE = Modal("would", _forms("möchte", "möchtest", "möchten"), "like to ")
WANT = ModalWithTo(PRESENT, VERBS["wollen"])
WANTED_TO = ModalWithTo(PAST, VERBS["wollen"])
HAVE_TO = ModalWithTo(PRESENT, VERBS["müssen"])
HAD_TO = ModalWithTo(PAST, VERBS["müssen"])

MODALS: tuple[Tense, ...] = (CAN, COULD, MUST, MAY, SHOULD, WANT, WANTED_TO, HAVE_TO, HAD_TO, FUTURE)
NARRATIVE = (PRESENT, PAST)
TENSES: tuple[Tense, ...] = (
    *(PRESENT,) * 8,
    *(PROGRESSIVE,) * 5,
    *(PAST,) * 6,
    *(PERFECT,) * 4,
    *(FUTURE,) * 3,
    *(PAST_PROGRESSIVE, PAST_PERFECT, GOING_TO, CAN, CAN, COULD, MUST, MAY, SHOULD),
    *(WANT, WANTED_TO, WOULD_LIKE, HAVE_TO, HAD_TO),
)
"""Every tense, the common ones more often."""
SIMPLE_INSTEAD: dict[Tense, Tense] = {PROGRESSIVE: PRESENT, PAST_PROGRESSIVE: PAST}
NO_PROGRESSIVE = "sein haben wollen lieben mögen kennen brauchen sehen hören vergessen passen"
STATIVE = frozenset(VERBS[verb] for verb in NO_PROGRESSIVE.split())
