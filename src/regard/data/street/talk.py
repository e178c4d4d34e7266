"""Families of what people say to each other: questions, commands, short answers, greetings."""

from dataclasses import replace

from regard.data.street import everyday, sampling
from regard.data.street.clauses import Clause, as_question, sentence
from regard.data.street.everyday import HERE, PRONOUNS, verbal
from regard.data.street.nouns import qualities
from regard.data.street.phrases import WHO, YOU, Nominal, Phrase
from regard.data.street.sampling import Draw
from regard.data.street.simple import identified, short_clause
from regard.data.street.single_clause import SPOTS
from regard.data.street.verbs import (
    BE,
    CAN,
    COULD,
    FUTURE,
    MAY,
    MUST,
    MUST_NOT,
    PAST,
    PERFECT,
    PRESENT,
    PROGRESSIVE,
    SHOULD,
    STATIVE,
    TENSES,
    VERBS,
    WANT,
    Simple,
    Tense,
    forms,
    verbs_named,
)
from regard.data.street.words import Agreement, Verb

TUN, TAT = forms("tue tust tut tun"), forms("tat tatest tat taten")
"""The forms of 'tun' stand in an answer for the verb of the question."""
ANSWERING: tuple[Tense, ...] = (PRESENT, PRESENT, PAST, PERFECT, CAN, CAN, COULD, MUST, MAY, SHOULD, FUTURE)
QUESTION_TENSES: tuple[Tense, ...] = (*TENSES, *(PRESENT,) * 8, *(PERFECT,) * 2, *(PAST,) * 3, CAN, CAN, WANT)
"""The tenses of questions, the common ones still more often."""
MEASURES = qualities("old big small strong fast heavy long wide high expensive good")
"""What one asks for with 'how'."""
STAYING = verbs_named("schlafen arbeiten spielen warten wohnen sitzen stehen")
LEAVING = verbs_named("gehen laufen reisen")
UNDERTAKEN = verbs_named("kaufen finden sehen verkaufen essen schreiben lesen")
MET = verbs_named("sehen suchen lieben besuchen kennen hören anrufen einladen fragen")
COMMANDS = verbs_named(
    "warten kommen gehen schlafen lachen tanzen singen laufen springen arbeiten spielen essen trinken lesen schreiben "
    "aufstehen zurückkommen einschlafen anfangen ausruhen beeilen denken kochen klettern sitzen helfen"
)
NOT_COMMANDED = STATIVE.union(verbs_named("ankommen wohnen")).difference(verbs_named("vergessen lieben"))
IDIOMS = tuple(
    Phrase(*line.split(" | "))
    for line in """
Hello. | Hallo.
Good morning. | Guten Morgen.
Good evening. | Guten Abend.
Good night. | Gute Nacht.
Goodbye. | Auf Wiedersehen.
Thank you. | Danke.
Thanks. | Danke.
Please. | Bitte.
Yes. | Ja.
No. | Nein.
Yes, please. | Ja, bitte.
No, thank you. | Nein, danke.
Maybe. | Vielleicht.
Of course. | Natürlich.
How are you? | Wie geht es dir?
What is your name? | Wie heißt du?
I do not know. | Ich weiß es nicht.
I don't know. | Ich weiß es nicht.
I know. | Ich weiß.
What is that? | Was ist das?
What is this? | Was ist das?
Who is that? | Wer ist das?
Who is it? | Wer ist es?
What is it? | Was ist es?
Who are you? | Wer bist du?
Where are you? | Wo bist du?
Why? | Warum?
Why not? | Warum nicht?
When? | Wann?
Where? | Wo?
Who? | Wer?
What? | Was?
""".strip().splitlines()
)
"""Sentences learnt as a whole; all of them are in the training split."""


def _subject(draw: Draw) -> Nominal:
    """Whom a question is about: often the listener."""
    return YOU if draw.chance(0.3) else everyday.subject(draw)


def question(draw: Draw) -> Phrase:
    """'Are you tired?', 'Did the dog sleep?': what is answered with yes or no."""
    if draw.chance(0.12):
        return as_question(identified(draw, verbal(draw, (PRESENT, PRESENT, PAST), negations=0.06)))
    how = verbal(draw, QUESTION_TENSES, negations=0.1)
    if draw.chance(0.3):
        return as_question(everyday.being(draw, _subject(draw) if draw.chance(0.3) else everyday.anything(draw), how))
    return as_question(everyday.does(draw, _subject(draw), how))


def open_question(draw: Draw) -> Phrase:
    """'Where is my hat?', 'What are you doing?': with a question word."""
    return draw.one((_who, _who, _whom, _what, _what, _where, _where, _where_to, _why, _when, _how, _what_is))(draw)


def _who(draw: Draw) -> Phrase:
    """'Who is sleeping?': the question word is the subject."""
    how = verbal(draw, QUESTION_TENSES, negations=0.08)
    clause = everyday.does(draw, WHO, how) if draw.chance(0.75) else everyday.being(draw, WHO, how)
    return sentence(clause.english(), clause.german(), "?")


def _whom(draw: Draw) -> Phrase:
    """'Whom did Anna visit?', which many say with 'who'."""
    who, how = _subject(draw), verbal(draw, QUESTION_TENSES, negations=0.05)
    english = draw.one(("who", "whom"))
    is_dative = draw.chance(0.25)
    verb = draw.one(everyday.WITH_DATIVE if is_dative else MET)
    return as_question(Clause(who, verb, how.of(verb)), english, "wem" if is_dative else "wen")


def _what(draw: Draw) -> Phrase:
    """'What do you see?', 'What is the dog doing?'."""
    who, how = _subject(draw), verbal(draw, QUESTION_TENSES, negations=0.05)
    if draw.chance(0.25):
        tense = how.of(VERBS["machen"])
        tense = PROGRESSIVE if tense is PRESENT and draw.chance(0.6) else tense
        return as_question(Clause(who, VERBS["machen"], tense), "what", "was")
    verb = VERBS[draw.one(everyday.OF_ANIMALS if everyday.is_animal(who) else everyday.TRANSITIVE)]
    if everyday.is_animal(who) and draw.chance(0.3):
        verb = VERBS["fressen"]
    if verb in verbs_named("anrufen einladen fragen"):
        verb = VERBS["kaufen"]
    return as_question(Clause(who, verb, how.of(verb)), "what", "was")


def _where(draw: Draw) -> Phrase:
    """'Where is the cat?', 'Where do you live?', 'Where did she buy the hat?'."""
    if draw.chance(0.5):
        return as_question(Clause(everyday.anything(draw), BE, draw.one((PRESENT, PRESENT, PAST))), "where", "wo")
    who, how = _subject(draw), verbal(draw, QUESTION_TENSES, negations=0.0)
    verb = draw.one(STAYING if draw.chance(0.6) else UNDERTAKEN)
    if verb in STAYING:
        return as_question(Clause(who, verb, how.of(verb)), "where", "wo")
    if everyday.is_animal(who) and verb is VERBS["essen"]:
        verb = VERBS["fressen"]
    objects = sampling.FOOD if verb is VERBS["fressen"] else everyday.OBJECTS[verb.german.infinitive]
    clause = Clause(who, verb, how.of(verb), accusative=everyday.whom(draw, objects, who))
    return as_question(clause, "where", "wo")


def _where_to(draw: Draw) -> Phrase:
    verb, how = draw.one(LEAVING), verbal(draw, QUESTION_TENSES, negations=0.0)
    return as_question(Clause(_subject(draw), verb, how.of(verb)), "where", "wohin")


def _why(draw: Draw) -> Phrase:
    how = verbal(draw, QUESTION_TENSES, negations=0.15)
    if draw.chance(0.4):
        return as_question(everyday.being(draw, everyday.anything(draw), how), "why", "warum")
    return as_question(everyday.does(draw, _subject(draw), how), "why", "warum")


def _when(draw: Draw) -> Phrase:
    who, how = _subject(draw), verbal(draw, QUESTION_TENSES, negations=0.0)
    if draw.chance(0.2):
        verb = draw.one(everyday.EVENT_VERBS)
        return as_question(Clause(everyday.phrase(draw, sampling.EVENTS), verb, how.of(verb)), "when", "wann")
    make = draw.one((everyday.intransitive, everyday.transitive))
    return as_question(replace(make(draw, who, how), complement=None), "when", "wann")


def _how(draw: Draw) -> Phrase:
    """'How old are you?', 'How much does the hat cost?'."""
    if draw.chance(0.25):
        goods = everyday.phrase(draw, everyday.WARES)
        return as_question(Clause(goods, VERBS["kosten"], PRESENT), "how much", "wie viel")
    measure = draw.one(MEASURES)
    clause = Clause(everyday.anything(draw), BE, draw.one((PRESENT, PRESENT, PAST)))
    return as_question(clause, f"how {measure.english}", f"wie {measure.german}")


def _what_is(draw: Draw) -> Phrase:
    """'Who is that man?', 'Who are they?'."""
    who: Nominal = draw.one(PRONOUNS) if draw.chance(0.3) else everyday.phrase(draw, sampling.PEOPLE)
    return as_question(Clause(who, BE, draw.one((PRESENT, PRESENT, PAST))), "who", "wer")


def command(draw: Draw) -> Phrase:
    """'Open the door!', 'Please do not wait', 'Let's go': what 'you' are to do, in German said to a friend."""
    mark = draw.one((".", ".", "!"))
    clause = _commanded(draw)
    if draw.chance(0.12) and not clause.negated and not clause.verb.german.reflexive:
        together = f"lass uns {clause.german_infinitive(with_zu=False)}"
        return sentence(clause.english_infinitive("let's"), together, mark)
    english, german = clause.english_command(), clause.german_command()
    if draw.chance(0.15):
        return sentence(f"please {english}", f"bitte {german}", mark)
    return sentence(english, german, mark)


def _commanded(draw: Draw) -> Clause:
    how = verbal(draw, (PRESENT,), negations=0.22)
    if draw.chance(0.22):
        verb = draw.one(COMMANDS)
        clause = how.clause(YOU, verb)
        if verb in STAYING and draw.chance(0.25):
            preposition, nouns = draw.one(SPOTS)
            place = draw.one(HERE) if draw.chance(0.3) else preposition.before(draw.the(nouns))
            return replace(clause, complement=place)
        return clause
    clause = everyday.does(draw, YOU, how)
    return _commanded(draw) if clause.verb in NOT_COMMANDED else clause


def answer(draw: Draw) -> Phrase:
    """'No, I don't', 'Yes, the dog sleeps': with the auxiliary of the question, or a clause after yes and no."""
    if draw.chance(0.12):
        return draw.one(IDIOMS)
    negated = draw.chance(0.5)
    opener = Phrase("no, ", "nein, ") if negated else Phrase("yes, ", "ja, ")
    if draw.chance(0.35):
        clause = short_clause(draw, TENSES, negations=0.6 if negated else 0.0)
        return sentence(opener.english + clause.english(), opener.german + clause.german())
    who = draw.one(PRONOUNS) if draw.chance(0.3) else everyday.subject(draw)
    tense = draw.one(ANSWERING)
    tense = MUST_NOT if negated and tense is MUST else tense
    verb = BE if isinstance(tense, Simple) and draw.chance(0.45) else VERBS["machen"]
    shortened = draw.chance(0.5) and negated
    english = Clause(who, verb, tense, negated=negated, shortened=shortened).english_answer()
    finite = _finite(verb, tense, who.agreement)
    german = f"das {finite} {who.german('nominative')}{' nicht' if negated else ''}"
    return sentence(opener.english + english, opener.german + german)


def _finite(verb: Verb, tense: Tense, agreement: Agreement) -> str:
    if isinstance(tense, Simple) and verb is not BE:
        return (TAT if tense.past else TUN)[agreement]
    return tense.german(verb, agreement).finite
