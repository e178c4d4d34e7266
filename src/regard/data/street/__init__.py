"""The embedded corpus: English and German sentences from a small grammar of our own, with nothing to download.

Its German is correct, and its sentences are made to show what attention is good for:

    The animal did not cross the street because it was too wide.
    Das Tier überquerte die Straße nicht, weil sie zu breit war.

*It* is 'sie' because the street is meant; were it too tired, it would be the animal, and 'es'. Other families show
relative clauses, separable verbs, verb-final clauses, cases, numbers and more:

    The chefs who went to the store bought the cake.     Die Köche, die zum Laden gingen, kauften den Kuchen.
    Anna threw away the old chair.                       Anna warf den alten Stuhl weg.
    Peter needs twenty-one eggs.                         Peter braucht einundzwanzig Eier.

    for english, german in pairs("train"):
        ...

`words` has the inflection, `nouns` and `verbs` the dictionary, `phrases` and `clauses` agreement and word order.
`sampling` chooses participants and times at random; `coreference`, `simple`, `talk`, `single_clause` and `compound`
generate families of sentences from them; `corpus` mixes the families, assigns sentences to splits and lists all words.
"""

from regard.data.street.coreference import Coreference as Coreference
from regard.data.street.coreference import resolve as resolve
from regard.data.street.corpus import LECTURE_SENTENCES as LECTURE_SENTENCES
from regard.data.street.corpus import SIZES as SIZES
from regard.data.street.corpus import Example as Example
from regard.data.street.corpus import examples as examples
from regard.data.street.corpus import pairs as pairs
from regard.data.street.corpus import pronoun_accuracy as pronoun_accuracy
from regard.data.street.corpus import pronoun_cases as pronoun_cases
from regard.data.street.corpus import split_of as split_of
