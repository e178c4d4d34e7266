"""When something happens: phrases that go with every tense, or only with some."""

from regard.data.street.draw import Draw
from regard.data.street.numerals import DAYS, DAYS_OF_MONTH, MINUTES, clock, date
from regard.data.street.phrases import Phrase
from regard.data.street.tenses import COULD, FUTURE, HAD_TO, PAST, WANTED, Tense

AT_ANY_TIME = (
    Phrase("today", "heute"),
    Phrase("in the morning", "am Morgen"),
    Phrase("in the evening", "am Abend"),
    Phrase("in summer", "im Sommer"),
    Phrase("in winter", "im Winter"),
    *(Phrase(f"on {day.english}", f"am {day.german}") for day in DAYS),
)
IN_THE_PAST = (Phrase("yesterday", "gestern"), Phrase("last week", "letzte Woche"), *AT_ANY_TIME)
IN_THE_FUTURE = (Phrase("tomorrow", "morgen"), Phrase("next week", "nächste Woche"), *AT_ANY_TIME)


def some_time(draw: Draw, tense: Tense) -> Phrase:
    """A phrase that goes with the tense."""
    if tense in (PAST, COULD, HAD_TO, WANTED):
        return draw.one(IN_THE_PAST)
    return draw.one(IN_THE_FUTURE if tense is FUTURE else AT_ANY_TIME)


def exact_time(draw: Draw) -> Phrase:
    """A time of the clock or a day of the year."""
    if draw.chance(0.5):
        return clock(draw.between(1, 12), draw.one((*MINUTES, 30, 30)))
    month = draw.between(1, 12)
    return date(draw.between(1, DAYS_OF_MONTH[month - 1]), month)
