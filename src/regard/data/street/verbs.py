"""The verbs, named by their German infinitive: English 'eat' is 'essen' for people and 'fressen' for animals."""

from collections.abc import Callable
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


VERBS = {verb.german.infinitive: verb for verb in map(read_verb, filter(None, VERB_TABLE.splitlines()))}
"""Every verb by its German infinitive."""
AGREEMENTS: tuple[Agreement, ...] = ("first", "second", "third", "plural")
Forms = dict[Agreement, str]


def verbs_named(infinitives: str) -> tuple[Verb, ...]:
    """The verbs with these German infinitives, separated by spaces."""
    return tuple(VERBS[infinitive] for infinitive in infinitives.split())


def forms(words: str) -> Forms:
    """The forms for I, you, he and we; one word alone is the same for all."""
    return dict(zip(AGREEMENTS, words.split() if " " in words else [words] * 4, strict=True))


BE = VERBS["sein"]
AM, WAS = forms("am are is are"), forms("was were was were")
BIN, WAR = forms("bin bist ist sind"), forms("war warst war waren")
HAVE, HAD = forms("have have has have"), forms("had")
DO, DID = forms("do do does do"), forms("did")
BECOME, BECAME = forms("werde wirst wird werden"), forms("wurde wurdest wurde wurden")


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

    def german(self, verb: Verb, agreement: Agreement, /) -> Bracket:
        """The German bracket."""
        ...


@dataclass(frozen=True, slots=True)
class Simple:
    """Present or past: 'buys' or 'does … buy', in German 'ruft … an'; the verb 'be' helps itself."""

    past: bool

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        if verb is BE:
            return EnglishGroup((WAS if self.past else AM)[agreement], "")
        if helped:
            return EnglishGroup((DID if self.past else DO)[agreement], verb.english.base)
        return EnglishGroup("", verb.english.past if self.past else verb.english.present(agreement))

    def german(self, verb: Verb, agreement: Agreement, /) -> Bracket:
        forms = verb.german
        if verb is BE:
            return Bracket((WAR if self.past else BIN)[agreement], "")
        if self.past and agreement == "second" and forms.infinitive not in PAST_OF_DU:
            return PERFECT.german(verb, agreement)
        return Bracket(forms.past(agreement) if self.past else forms.present(agreement), forms.prefix, joins=True)


@dataclass(frozen=True, slots=True, eq=False)
class Compound:
    """An auxiliary and a form of the verb: 'is … buying', 'has … bought', 'can … buy'."""

    auxiliary: Forms
    form: Callable[[Verb], str]
    german: Callable[[Verb, Agreement], Bracket]

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        return EnglishGroup(self.auxiliary[agreement], self.form(verb))


@dataclass(frozen=True, slots=True)
class ModalWithTo:
    """What English says with a full verb, 'wants to buy', and German with a modal verb, 'will … kaufen'."""

    tense: Simple
    modal: Verb

    def english(self, verb: Verb, agreement: Agreement, helped: bool) -> EnglishGroup:
        auxiliary, rest = self.tense.english(self.modal, agreement, helped)
        return EnglishGroup(auxiliary, f"{rest} to {verb.english.base}")

    def german(self, verb: Verb, agreement: Agreement, /) -> Bracket:
        return Bracket(self.tense.german(self.modal, agreement).finite, verb.german.infinitive)


def _progressive(auxiliary: Forms, simple: Simple) -> Compound:
    """What happens at a time: English says it with 'be' and 'ing', German with the simple tense."""
    return Compound(auxiliary, lambda verb: verb.english.progressive, simple.german)


def _perfect(auxiliary: Forms, simple: Simple) -> Compound:
    """In German with 'haben' or 'sein' as the verb demands: 'hat … gekauft', 'ist … gereist'."""

    def german(verb: Verb, agreement: Agreement) -> Bracket:
        return Bracket(simple.german(VERBS[verb.german.auxiliary], agreement).finite, verb.german.participle)

    return Compound(auxiliary, lambda verb: verb.english.participle, german)


def _passive(auxiliary: Forms, become: Forms) -> Compound:
    """The passive of an event: 'was … bought', 'wurde … gekauft'."""
    return Compound(
        auxiliary,
        lambda verb: verb.english.participle,
        lambda verb, agreement: Bracket(become[agreement], verb.german.participle),
    )


def _modal(word: str, german: Forms, link: str = "") -> Compound:
    """A modal verb, or the future, which is built like one; `link`: before the infinitive, as in 'like to'."""
    return Compound(
        forms(word),
        lambda verb: link + verb.english.base,
        lambda verb, agreement: Bracket(german[agreement], verb.german.infinitive),
    )


PRESENT, PAST = Simple(past=False), Simple(past=True)
PROGRESSIVE, PAST_PROGRESSIVE = _progressive(AM, PRESENT), _progressive(WAS, PAST)
PERFECT, PAST_PERFECT = _perfect(HAVE, PRESENT), _perfect(HAD, PAST)
PASSIVE, PASSIVE_PAST = _passive(AM, BECOME), _passive(WAS, BECAME)
FUTURE = _modal("will", BECOME)
GOING_TO = Compound(AM, lambda verb: f"going to {verb.english.base}", FUTURE.german)
CAN, COULD = _modal("can", forms("kann kannst kann können")), _modal("could", forms("konnte konntest konnte konnten"))
MUST, MAY = _modal("must", forms("muss musst muss müssen")), _modal("may", forms("darf darfst darf dürfen"))
MUST_NOT = Compound(MUST.auxiliary, MUST.form, MAY.german)
"""For negated clauses: what one must not do, one 'darf' not do."""
SHOULD = _modal("should", forms("sollte solltest sollte sollten"))
WOULD_LIKE = _modal("would", forms("möchte möchtest möchte möchten"), "like to ")
WANT, WANTED_TO = ModalWithTo(PRESENT, VERBS["wollen"]), ModalWithTo(PAST, VERBS["wollen"])
HAVE_TO, HAD_TO = ModalWithTo(PRESENT, VERBS["müssen"]), ModalWithTo(PAST, VERBS["müssen"])

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
STATIVE = frozenset(verbs_named("sein haben wollen lieben mögen kennen brauchen sehen hören vergessen passen"))
"""Verbs without a progressive."""
