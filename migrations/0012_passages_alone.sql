-- Questions are searched in `plan_passages` alone, with the stems that SQLite makes: the
-- index of sections with stems made by the daemon goes.
DROP TABLE plan_words;
DROP TABLE plan_stems;
