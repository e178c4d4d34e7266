"""The grammar behind the embedded corpus, against forms and sentences written by hand."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import street
from regard.data.street import determiners
from regard.data.street.adjectives import ADJECTIVES
from regard.data.street.cast import FOR, INTO, NAMES, ONTO, TO, WITH
from regard.data.street.clauses import Clause, sentence
from regard.data.street.draw import Draw
from regard.data.street.families import FAMILIES
from regard.data.street.nouns import NOUNS
from regard.data.street.numerals import cardinal, clock, date, ordinal
from regard.data.street.phrases import HER, HIM, IT, ME, THEM, US, Nominal, NounPhrase, Phrase
from regard.data.street.tenses import (
    CAN,
    FUTURE,
    HAD_TO,
    MAY,
    MODALS,
    MUST,
    PAST,
    PERFECT,
    PRESENT,
    SHOULD,
    WANT,
    Tense,
)
from regard.data.street.times import IN_THE_FUTURE, IN_THE_PAST
from regard.data.street.verbs import VERBS

PRONOUNS = {"I": ME, "he": HIM, "him": HIM, "she": HER, "we": US, "they": THEM}
ARTICLES = {
    **{"the": determiners.THE, "a": determiners.A, "an": determiners.A},
    **{"this": determiners.THIS, "these": determiners.THESE},
    **{possessive.english: possessive for possessive in determiners.POSSESSIVES},
}


def read(words: str) -> Nominal:
    """A phrase from its English words, so that the tests below read like sentences."""
    people = PRONOUNS | {name.text: name for name in NAMES}
    if words in people:
        return people[words]
    *before, last = words.split()
    noun = next(noun for noun in NOUNS.values() if last in (noun.english, noun.english_plural))
    article = ARTICLES[before.pop(0)] if before and before[0] in ARTICLES else determiners.BARE
    return NounPhrase(article, noun, ADJECTIVES[before[0]] if before else None, plural=last == noun.english_plural)


def says(subject: str, verb: str, tense: Tense, accusative: str = "", **more) -> Clause:
    return Clause(read(subject), VERBS[verb], tense, accusative=read(accusative) if accusative else None, **more)


DECLENSIONS = """
the old man: der alte Mann, den alten Mann, dem alten Mann
the old woman: die alte Frau, die alte Frau, der alten Frau
the young child: das junge Kind, das junge Kind, dem jungen Kind
the old men: die alten Männer, die alten Männer, den alten Männern
an old man: ein alter Mann, einen alten Mann, einem alten Mann
an old woman: eine alte Frau, eine alte Frau, einer alten Frau
a young child: ein junges Kind, ein junges Kind, einem jungen Kind
my old aunts: meine alten Tanten, meine alten Tanten, meinen alten Tanten
cold tea: kalter Tee, kalten Tee, kaltem Tee
cold milk: kalte Milch, kalte Milch, kalter Milch
cold water: kaltes Wasser, kaltes Wasser, kaltem Wasser
old books: alte Bücher, alte Bücher, alten Büchern
our dog: unser Hund, unseren Hund, unserem Hund
her cat: ihre Katze, ihre Katze, ihrer Katze
his horse: sein Pferd, sein Pferd, seinem Pferd
their hats: ihre Hüte, ihre Hüte, ihren Hüten
this high tower: dieser hohe Turm, diesen hohen Turm, diesem hohen Turm
this dark street: diese dunkle Straße, diese dunkle Straße, dieser dunklen Straße
this expensive dress: dieses teure Kleid, dieses teure Kleid, diesem teuren Kleid
these tired girls: diese müden Mädchen, diese müden Mädchen, diesen müden Mädchen
the boy: der Junge, den Jungen, dem Jungen
the neighbour: der Nachbar, den Nachbarn, dem Nachbarn
a bear: ein Bär, einen Bären, einem Bären
the cars: die Autos, die Autos, den Autos
the uncles: die Onkel, die Onkel, den Onkeln
the mice: die Mäuse, die Mäuse, den Mäusen
"""


@pytest.mark.parametrize("line", DECLENSIONS.strip().splitlines())
def test_noun_phrases_are_declined(line: str):
    english, german = line.split(": ")
    phrase = read(english)
    assert phrase.english("nominative") == english
    assert [phrase.german(case) for case in ("nominative", "accusative", "dative")] == german.split(", ")


CONJUGATIONS = """
kaufen: kaufe kauft kaufen, kaufte kauften, hat gekauft, zu kaufen
arbeiten: arbeite arbeitet arbeiten, arbeitete arbeiteten, hat gearbeitet, zu arbeiten
reparieren: repariere repariert reparieren, reparierte reparierten, hat repariert, zu reparieren
besuchen: besuche besucht besuchen, besuchte besuchten, hat besucht, zu besuchen
klettern: klettere klettert klettern, kletterte kletterten, ist geklettert, zu klettern
sehen: sehe sieht sehen, sah sahen, hat gesehen, zu sehen
essen: esse isst essen, aß aßen, hat gegessen, zu essen
tragen: trage trägt tragen, trug trugen, hat getragen, zu tragen
laufen: laufe läuft laufen, lief liefen, ist gelaufen, zu laufen
bringen: bringe bringt bringen, brachte brachten, hat gebracht, zu bringen
haben: habe hat haben, hatte hatten, hat gehabt, zu haben
wissen: weiß weiß wissen, wusste wussten, hat gewusst, zu wissen
anrufen: rufe ruft rufen, rief riefen, hat angerufen, anzurufen
einladen: lade lädt laden, lud luden, hat eingeladen, einzuladen
ankommen: komme kommt kommen, kam kamen, ist angekommen, anzukommen
anprobieren: probiere probiert probieren, probierte probierten, hat anprobiert, anzuprobieren
überqueren: überquere überquert überqueren, überquerte überquerten, hat überquert, zu überqueren
"""


@pytest.mark.parametrize("line", CONJUGATIONS.strip().splitlines())
def test_verbs_are_conjugated(line: str):
    name, forms = line.split(": ")
    present, past, perfect, with_zu = forms.split(", ")
    verb = VERBS[name]
    assert [verb.german.present(agreement) for agreement in ("first", "third", "plural")] == present.split()
    assert [verb.german.past(agreement) for agreement in ("third", "plural")] == past.split()
    assert list(PERFECT.german(verb, "third"))[:2] == perfect.split()
    assert verb.german.infinitive_with_zu == with_zu


STATEMENTS = [
    (says("Anna", "anrufen", PRESENT, "the doctor"), "Anna calls the doctor.", "Anna ruft den Arzt an."),
    (says("they", "wegwerfen", PAST, "old chairs"), "They threw away old chairs.", "Sie warfen alte Stühle weg."),
    (says("we", "einladen", PERFECT, "him"), "We have invited him.", "Wir haben ihn eingeladen."),
    (says("I", "zumachen", FUTURE, "a window"), "I will close a window.", "Ich werde ein Fenster zumachen."),
    (says("she", "abholen", MUST, "the boy"), "She must pick up the boy.", "Sie muss den Jungen abholen."),
    (says("he", "suchen", WANT, "his dog"), "He wants to look for his dog.", "Er will seinen Hund suchen."),
    (
        says("the girls", "singen", HAD_TO, "a song"),
        "The girls had to sing a song.",
        "Die Mädchen mussten ein Lied singen.",
    ),
    (says("I", "trinken", MAY, "cold milk"), "I may drink cold milk.", "Ich darf kalte Milch trinken."),
    (says("my aunts", "kochen", SHOULD, "eggs"), "My aunts should cook eggs.", "Meine Tanten sollten Eier kochen."),
    (says("Anna", "aufstehen", PERFECT), "Anna has got up.", "Anna ist aufgestanden."),
    (says("the mice", "fressen", PAST, "the cheese"), "The mice ate the cheese.", "Die Mäuse fraßen den Käse."),
    (
        says("he", "helfen", PRESENT, dative=read("the old woman")),
        "He helps the old woman.",
        "Er hilft der alten Frau.",
    ),
    (says("they", "folgen", PERFECT, dative=ME), "They have followed me.", "Sie sind mir gefolgt."),
    (
        says("the king", "geben", PRESENT, "a car", dative=read("his brothers")),
        "The king gives his brothers a car.",
        "Der König gibt seinen Brüdern ein Auto.",
    ),
    (
        says("Anna", "anbieten", PAST, "the chair", dative=HER, dative_with_to=True),
        "Anna offered the chair to her.",
        "Anna bot ihr den Stuhl an.",
    ),
    (says("we", "beeilen", PRESENT), "We hurry.", "Wir beeilen uns."),
    (says("I", "ausruhen", PAST), "I rested.", "Ich ruhte mich aus."),
    (says("the cats", "ausruhen", PERFECT), "The cats have rested.", "Die Katzen haben sich ausgeruht."),
    (
        says("Karl", "laufen", PAST, complement=INTO.before(read("the house"))),
        "Karl ran into the house.",
        "Karl lief ins Haus.",
    ),
    (
        says("a goat", "springen", PERFECT, complement=ONTO.before(read("the roof"))),
        "A goat has jumped onto the roof.",
        "Eine Ziege ist auf das Dach gesprungen.",
    ),
    (
        says("she", "gehen", PRESENT, complement=TO.before(read("the church"))),
        "She goes to the church.",
        "Sie geht zur Kirche.",
    ),
    (
        says("we", "tanzen", PAST, complement=WITH.before(read("a friendly neighbour"))),
        "We danced with a friendly neighbour.",
        "Wir tanzten mit einem freundlichen Nachbarn.",
    ),
    (
        says("he", "malen", PRESENT, "pictures", complement=FOR.before(US)),
        "He paints pictures for us.",
        "Er malt Bilder für uns.",
    ),
    (says("I", "haben", PRESENT, "a dog", negated=True), "I do not have a dog.", "Ich habe keinen Hund."),
    (says("he", "kaufen", PAST, "bread", negated=True), "He did not buy bread.", "Er kaufte kein Brot."),
    (
        says("she", "sehen", PRESENT, "old cars", negated=True),
        "She does not see old cars.",
        "Sie sieht keine alten Autos.",
    ),
    (
        says("Max", "aufmachen", CAN, "the door", negated=True, shortened=True),
        "Max can't open the door.",
        "Max kann die Tür nicht aufmachen.",
    ),
    (
        says("they", "verkaufen", FUTURE, "my horse", negated=True, shortened=True),
        "They won't sell my horse.",
        "Sie werden mein Pferd nicht verkaufen.",
    ),
]


@pytest.mark.parametrize(("clause", "english", "german"), STATEMENTS, ids=[row[1] for row in STATEMENTS])
def test_statements(clause: Clause, english: str, german: str):
    assert sentence(clause.english(), clause.german()) == (english, german)


def test_one_clause_in_every_order():
    clause = says("Anna", "mitbringen", PAST, "a cake", time=Phrase("on Monday", "am Montag"))
    assert clause.english(time_first=True) == "on Monday Anna brought along a cake"
    assert clause.german() == "Anna brachte am Montag einen Kuchen mit"
    assert clause.german(time_first=True) == "am Montag brachte Anna einen Kuchen mit"
    assert clause.english_question("why") == "why did Anna bring along a cake on Monday"
    assert clause.german_inverted("warum") == "warum brachte Anna am Montag einen Kuchen mit"
    assert clause.german_final("weil") == "weil Anna am Montag einen Kuchen mitbrachte"
    assert clause.english_infinitive() == "to bring along a cake"
    perfect = says("we", "reisen", PERFECT, complement=Phrase("to Vienna", "nach Wien"))
    assert perfect.german_final("dass") == "dass wir nach Wien gereist sind"


def test_the_lectures_sentences_are_of_the_grammar():
    event = says("the animal", "überqueren", PAST, "the street", negated=True)
    for (source, target), gender, reason in zip(
        street.LECTURE_SENTENCES,
        ("n", "f"),
        (Phrase("too tired", "zu müde"), Phrase("too wide", "zu breit")),
        strict=True,
    ):
        because = Clause(IT[gender], VERBS["sein"], PAST, complement=reason)
        english = f"{event.english()} because {because.english()}"
        assert sentence(english, f"{event.german()}, {because.german_final('weil')}") == (source, target)


SENTENCES = """
The goat didn't carry the basket because it was very heavy. | Die Ziege trug den Korb nicht, weil er sehr schwer war.
The goose did not pull the ship because it was too long. | Die Gans zog das Schiff nicht, weil es zu lang war.
The table doesn't fit into the room because it is too full. | Der Tisch passt nicht ins Zimmer, weil es zu voll ist.
The goat cannot eat the fish because it is so bitter. | Die Ziege kann den Fisch nicht fressen, weil er so bitter ist.
The rabbit did not drink the milk because it was too sour. | Das Kaninchen trank die Milch nicht, weil sie zu sauer war.
The boy who travels to Rome is tired. | Der Junge, der nach Rom reist, ist müde.
The chefs who painted the camel wrote the letter. | Die Köche, die das Kamel malten, schrieben den Brief.
The lemonade that the uncles drank is sweet. | Die Limonade, die die Onkel tranken, ist süß.
The neighbour whom the chef thanked is clever. | Der Nachbar, dem der Koch dankte, ist klug.
Thomas visits the aunt who lives in Cologne. | Thomas besucht die Tante, die in Köln wohnt.
The girl who washed the hats knew the doctor. | Das Mädchen, das die Hüte wusch, kannte den Arzt.
The neighbours ask whether the men have bought the shirt. | Die Nachbarn fragen, ob die Männer das Hemd gekauft haben.
While Clara tries on the shirt, Karl finds the clock. | Während Clara das Hemd anprobiert, findet Karl die Uhr.
If the children fall asleep, Peter turns on the radio. | Wenn die Kinder einschlafen, schaltet Peter das Radio ein.
When Peter fell asleep, the girl invited the father. | Als Peter einschlief, lud das Mädchen den Vater ein.
Although Clara was rich, she threw away the clock. | Obwohl Clara reich war, warf sie die Uhr weg.
Lena hopes that the man brings along the suitcase. | Lena hofft, dass der Mann den Koffer mitbringt.
I ask whether the women bake the bread. | Ich frage, ob die Frauen das Brot backen.
Karl tried to sing a song. | Karl versuchte, ein Lied zu singen.
Thomas tries to invite my aunt. | Thomas versucht, meine Tante einzuladen.
Anna opened the box and Jonas called the child. | Anna machte die Kiste auf und Jonas rief das Kind an.
Has the girl drunk cold milk? | Hat das Mädchen kalte Milch getrunken?
How much do the machines cost? | Wie viel kosten die Maschinen?
When does the bus arrive? | Wann kommt der Bus an?
Who has washed the dress? | Wer hat das Kleid gewaschen?
Which roll have they baked? | Welches Brötchen haben sie gebacken?
Does the mother eat his bread? | Isst die Mutter sein Brot?
On the first of November Karl falls asleep. | Am ersten November schläft Karl ein.
The train departs at a quarter to two. | Der Zug fährt um Viertel vor zwei ab.
At half past nine this queen will get up. | Um halb zehn wird diese Königin aufstehen.
The pig was the heaviest animal in the village. | Das Schwein war das schwerste Tier im Dorf.
Sophie was cleverer than Karl. | Sophie war klüger als Karl.
The lambs were not as young as the geese. | Die Lämmer waren nicht so jung wie die Gänse.
The fish was cooked by Peter. | Der Fisch wurde von Peter gekocht.
The cake is eaten by the father. | Der Kuchen wird vom Vater gegessen.
The songs were sung by a father. | Die Lieder wurden von einem Vater gesungen.
Peter climbs onto a tree. | Peter klettert auf einen Baum.
They slept behind his school. | Sie schliefen hinter seiner Schule.
A farmer saw ten pigs. | Ein Bauer sah zehn Schweine.
The carpet costs twenty-one euros. | Der Teppich kostet einundzwanzig Euro.
Paul was seventy-seven years old. | Paul war siebenundsiebzig Jahre alt.
The king does not have a hare. | Der König hat keinen Hasen.
A queen does not eat a fresh egg. | Eine Königin isst kein frisches Ei.
"""


def test_sentences_of_the_corpus():
    known = dict(street.pairs("train", 20_000))
    expected = dict(line.split(" | ") for line in SENTENCES.strip().splitlines())
    assert {english: known.get(english) for english in expected} == expected


CARDINALS = {
    **{1: "eins", 6: "sechs", 7: "sieben", 12: "zwölf", 16: "sechzehn", 17: "siebzehn", 30: "dreißig"},
    **{21: "einundzwanzig", 66: "sechsundsechzig", 77: "siebenundsiebzig", 100: "einhundert", 600: "sechshundert"},
}
ORDINALS = {
    **{1: ("first", "ersten"), 3: ("third", "dritten"), 7: ("seventh", "siebten"), 8: ("eighth", "achten")},
    **{12: ("twelfth", "zwölften"), 19: ("nineteenth", "neunzehnten"), 20: ("twentieth", "zwanzigsten")},
    **{22: ("twenty-second", "zweiundzwanzigsten"), 31: ("thirty-first", "einunddreißigsten")},
}


def test_numbers_are_said_units_first():
    assert {number: cardinal(number).german for number in CARDINALS} == CARDINALS
    assert {number: ordinal(number) for number in ORDINALS} == ORDINALS
    assert (cardinal(21).english, cardinal(600).english) == ("twenty-one", "six hundred")


def test_clock_and_calendar():
    assert clock(1, 0) == ("at one o'clock", "um ein Uhr")
    assert clock(12, 30) == ("at half past twelve", "um halb eins")
    assert clock(12, 45) == ("at a quarter to one", "um Viertel vor eins")
    assert clock(6, 10) == ("at ten past six", "um zehn nach sechs")
    assert date(3, 3) == ("on the third of March", "am dritten März")


FINITE = {
    form
    for verb in VERBS.values()
    for agreement in ("first", "third", "plural")
    for tense in (PRESENT, PAST, PERFECT, *MODALS)
    for finite, closing, joins in [tense.german(verb, agreement)]
    for form in (finite, closing + finite if joins else finite)
}
TIMES = tuple(time.german[0].upper() + time.german[1:] for time in IN_THE_PAST + IN_THE_FUTURE)
ARTICLE = re.compile(r"\b([Dd](?:er|ie|as|en|em)) ([A-ZÄÖÜ][a-zäöüß]+)")
SUBORDINATE = re.compile(r"\b(?:weil|dass|ob|[Oo]bwohl|[Ww]enn|[Ww]ährend|Als) ([^,.]+)[,.]")
POSSIBLE_ARTICLES = {"m": ("der", "den", "dem"), "f": ("die", "der", "die"), "n": ("das", "das", "dem")}


def agreeing() -> set[tuple[str, str]]:
    """Every article with every noun form that it may stand before."""
    found = set()
    for noun in NOUNS.values():
        found.update(zip(POSSIBLE_ARTICLES[noun.gender], (noun.german, *[noun.german_oblique] * 2), strict=True))
        plural = noun.german_plural
        found.update((("die", plural), ("den", plural if plural[-1] in "ns" else plural + "n")))
    return found


AGREEING = agreeing()
NOUN_FORMS = {noun for _, noun in AGREEING}


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(sorted(FAMILIES)))
def test_agreement_and_order_hold_everywhere(seed: int, family: str):
    source, target = FAMILIES[family][1](Draw(seed))
    assert re.fullmatch(r"[A-Z][A-Za-z',-]*( [A-Za-z',-]+)*[.?]", source), source
    assert re.fullmatch(r"[A-ZÄÖÜ][A-Za-zäöüÄÖÜß]*,?( [A-Za-zäöüÄÖÜß]+,?)*[.?]", target), target
    articles = [(article.lower(), noun) for article, noun in ARTICLE.findall(target) if noun in NOUN_FORMS]
    assert set(articles) <= AGREEING, target
    assert all(clause.split()[-1] in FINITE for clause in SUBORDINATE.findall(target)), target
    opening = next((time for time in TIMES if target.startswith(f"{time} ")), None)
    if opening:
        assert target.removeprefix(opening).split()[0] in FINITE, target
