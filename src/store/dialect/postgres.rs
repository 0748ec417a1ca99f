//! What only PostgreSQL has: other names of functions, and parameters in the types that the server finds
//! for a statement. `tsvector`s find passages. The schema defines the functions of SQLite that the common
//! statements use (`iif`, `->>` of a text).

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use provost_actors::blocking::lock;
use provost_actors::refusal::{Code, Refusal};
use serde_json::{Value, json};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgTypeInfo};
use sqlx::query::Query;
use sqlx::{
    Arguments as _, AssertSqlSafe, Either, Encode, Executor, PgConnection, Postgres, SqlSafeStr,
    SqlStr, Statement as _, Type,
};
use unicode_normalization::UnicodeNormalization;

use super::{Dialect, Terms, Words};
use crate::store::Result;
use crate::store::pg_transaction::answered;

/// The statements of PostgreSQL.
pub const DIALECT: Dialect = Dialect {
    holds_nul: false,
    now: "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)",
    begin_write: "BEGIN",
    begin_snapshot: "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    index_passages: "INSERT INTO plan_passages (rowid, words, size)
         SELECT $1 + i.key, w.words,
                (SELECT coalesce(sum(cardinality(positions)), 0) FROM unnest(w.words))
         FROM json_items($4) i,
              LATERAL (SELECT setweight(to_tsvector('words', $2), 'C')
                           || setweight(to_tsvector('words', plain($3)), 'B')
                           || setweight(to_tsvector('words', plain(i.value)), 'A') AS words) w",
    match_passages: MATCH,
    lacks_words: "SELECT NOT EXISTS (
         SELECT 1 FROM plan_passages
         WHERE words @@ to_tsquery('words', CAST($1 AS text) ->> 'query') AND rowid = $2)",
    words,
};

/// Ranks by BM25 as SQLite's `bm25` does, with its constants
/// (<https://www.sqlite.org/fts5.html#the_bm25_function>): PostgreSQL's own rank knows nothing of how
/// rare a word is.
const MATCH: &str = "WITH found AS MATERIALIZED (
         SELECT rowid, words, size FROM plan_passages
         WHERE words @@ to_tsquery('words', CAST($1 AS text) ->> 'query')),
     corpus AS MATERIALIZED (
         SELECT count(*) AS passages, CAST(avg(size) AS double precision) AS mean
         FROM plan_passages),
     asked AS (
         SELECT l.lexeme, CAST($3 AS double precision) AS place, CAST($4 AS double precision) AS said
         FROM json_items(CAST($1 AS text), '$.terms') i, unnest(to_tsvector('words', i.value)) l
         UNION
         SELECT l.lexeme, CAST($3 AS double precision), 0
         FROM json_items(CAST($1 AS text), '$.places') i, unnest(to_tsvector('words', i.value)) l),
     word AS MATERIALIZED (
         SELECT a.*, greatest(ln((c.passages - n.hits + 0.5) / (n.hits + 0.5)), 0.000001) AS rarity
         FROM corpus c, asked a,
              LATERAL (SELECT count(*) AS hits FROM plan_passages
                       WHERE words @@ CAST(quote_literal(a.lexeme) || ':AB' AS tsquery)) n)
     SELECT f.rowid, CAST(-coalesce(sum(o.rarity * o.times * 2.2
                / (o.times + 1.2 * (0.25 + 0.75 * f.size / c.mean))), 0) AS double precision) AS score
     FROM corpus c, found f LEFT JOIN LATERAL (
         SELECT w.rarity, sum(CASE weight WHEN 'A' THEN w.said WHEN 'B' THEN w.place ELSE 0 END) AS times
         FROM unnest(f.words) u JOIN word w ON w.lexeme = u.lexeme, unnest(u.weights) weight
         GROUP BY w.lexeme, w.said, w.rarity) o ON true
     GROUP BY f.rowid ORDER BY score, f.rowid LIMIT $2";

/// The names of SQLite in the common statements, each with PostgreSQL's name for the same.
const NAMES: &[(&str, &str)] = &[
    ("json_group_array(", "json_agg("),
    ("json_object(", "json_build_object("),
    ("json_array(", "json_build_array("),
    ("json_each(", "json_items("),
    // For SQLite, `CROSS JOIN` fixes the order of the loops; for PostgreSQL it would be another join.
    ("CROSS JOIN", "JOIN"),
];

/// The common text of a statement as PostgreSQL understands it.
fn text(sql: &str) -> String {
    NAMES.iter().fold(sql.to_owned(), |sql, (name, own)| sql.replace(name, own))
}

/// A JSON document for the statements above: the query of `to_tsquery`, and the words in it. The word of a
/// plan has the weight C, words of headings have B, words of the passage A.
fn words(words: &Words<'_>) -> String {
    let mut parts = Vec::new();
    if !words.plans.is_empty() {
        parts.push(any(words.plans, ":C", " | "));
    }
    let terms = match words.terms {
        Terms::None => Vec::new(),
        Terms::Any(terms) | Terms::All(terms) => plain(terms),
    };
    if !terms.is_empty() {
        let joint = if matches!(words.terms, Terms::All(_)) { " & " } else { " | " };
        parts.push(any(&terms, ":AB", joint));
    }
    let places = plain(words.places);
    if !places.is_empty() {
        parts.push(any(&places, ":B", " | "));
    }
    json!({"query": parts.join(" & "), "terms": terms, "places": places}).to_string()
}

fn any(phrases: &[String], weight: &str, joint: &str) -> String {
    let quoted: Vec<String> = phrases.iter().map(|phrase| format!("'{phrase}'{weight}")).collect();
    format!("({})", quoted.join(joint))
}

/// Phrases in lower case, without diacritics and punctuation, exactly as the function `plain` of the schema
/// makes them: index and query must agree.
fn plain(phrases: &[String]) -> Vec<String> {
    let is_mark = |c: &char| ('\u{300}'..='\u{36f}').contains(c);
    let spaced = |c: char| if c.is_ascii() && !c.is_ascii_alphanumeric() { ' ' } else { c };
    let plain = |phrase: &String| {
        phrase.to_lowercase().nfd().filter(|c| !is_mark(c)).map(spaced).collect::<String>()
    };
    phrases.iter().map(plain).collect()
}

/// The types of columns and parameters that the store reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Boolean,
    Short,
    Integer,
    Long,
    Float,
    /// Also JSON, which is read and written as its text.
    Text,
    Other,
}

impl Kind {
    /// The kind of a type, by the type's number, which is the same in each PostgreSQL (`pg_type.dat`).
    pub fn of(info: &PgTypeInfo) -> Self {
        match info.oid().map(|oid| oid.0) {
            Some(16) => Self::Boolean,
            Some(21) => Self::Short,
            Some(23) => Self::Integer,
            Some(20) => Self::Long,
            Some(701) => Self::Float,
            // text, varchar, name, unknown, json
            Some(25 | 1043 | 19 | 705 | 114) => Self::Text,
            _ => Self::Other,
        }
    }
}

/// A statement that the server has prepared once.
#[derive(Debug)]
pub struct Known {
    text: Arc<str>,
    /// The type of each parameter.
    kinds: Vec<Kind>,
}

/// Every statement that was run, by its common text. The source has a limited number of statements, so
/// the map does not grow without end.
static KNOWN: LazyLock<Mutex<HashMap<String, Arc<Known>>>> = LazyLock::new(Mutex::default);

impl Known {
    /// The statement with this common text. Its first use asks the server for the types of its parameters;
    /// they depend on the text alone.
    pub async fn of(sql: &SqlStr, connection: &mut PgConnection) -> Result<Arc<Self>> {
        if let Some(known) = lock(&KNOWN).get(sql.as_str()) {
            return Ok(Arc::clone(known));
        }
        let text: Arc<str> = text(sql.as_str()).into();
        let preparing = connection.prepare(AssertSqlSafe(Arc::clone(&text)).into_sql_str());
        let prepared = answered(preparing).await?;
        let kinds = match prepared.parameters() {
            Some(Either::Left(types)) => types.iter().map(Kind::of).collect(),
            _ => Vec::new(),
        };
        let known = Arc::new(Self { text, kinds });
        lock(&KNOWN).insert(sql.as_str().to_owned(), Arc::clone(&known));
        Ok(known)
    }

    /// The statement with its parameters, each in the binary form of its type. Refuses a text with U+0000.
    pub fn query(&self, values: Vec<Value>) -> Result<Query<'static, Postgres, PgArguments>> {
        let mut arguments = PgArguments::default();
        for (value, kind) in values.into_iter().zip(&self.kinds) {
            let bytes = bytes(&value, *kind)?;
            arguments.add(Parameter(bytes)).map_err(sqlx::Error::Encode)?;
        }
        Ok(sqlx::query_with(AssertSqlSafe(Arc::clone(&self.text)), arguments))
    }
}

/// A parameter in the binary form of its type; `None`: NULL.
struct Parameter(Option<Vec<u8>>);

impl Type<Postgres> for Parameter {
    fn type_info() -> PgTypeInfo {
        // `unknown`: the server takes the type from the statement.
        PgTypeInfo::with_oid(Oid(705))
    }
}

impl Encode<'_, Postgres> for Parameter {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let Some(bytes) = &self.0 else { return Ok(IsNull::Yes) };
        buffer.extend_from_slice(bytes);
        Ok(IsNull::No)
    }
}

/// A value in the binary form of a type; `None`: NULL.
fn bytes(value: &Value, kind: Kind) -> Result<Option<Vec<u8>>> {
    // A number beyond the column's range stands for "without end": the greatest one is stored.
    let number = |value: &Value| match value {
        Value::Bool(bool) => Some(i64::from(*bool)),
        Value::Number(number) if number.is_f64() => None,
        Value::Number(number) => Some(number.as_i64().unwrap_or(i64::MAX)),
        _ => None,
    };
    let found = match (kind, value) {
        (_, Value::Null) => return Ok(None),
        (Kind::Boolean, _) => number(value).map(|number| vec![u8::from(number != 0)]),
        (Kind::Long, _) => number(value).map(|number| number.to_be_bytes().to_vec()),
        (Kind::Integer, _) => number(value)
            .map(|number| i32::try_from(number).unwrap_or(i32::MAX).to_be_bytes().to_vec()),
        (Kind::Float, _) => value.as_f64().map(|number| number.to_be_bytes().to_vec()),
        (Kind::Text, Value::String(text)) if text.contains('\0') => return Err(nul().into()),
        (Kind::Text, Value::String(text)) => Some(text.clone().into_bytes()),
        (Kind::Text, Value::Bool(bool)) => Some(i64::from(*bool).to_string().into_bytes()),
        (Kind::Text, other) => Some(other.to_string().into_bytes()),
        (Kind::Short | Kind::Other, _) => None,
    };
    let error = || format!("{value} can't be a parameter of the kind {kind:?}");
    found.map(Some).ok_or_else(|| sqlx::Error::Encode(error().into()).into())
}

/// The refusal of a text with U+0000, which PostgreSQL can't store.
fn nul() -> Refusal {
    let message = "a text contains the character U+0000, which PostgreSQL can't store";
    Refusal::new(Code::InvalidArgument, message)
        .hint("Call the tool again with texts that do not contain this character.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_of_the_type_that_the_statement_needs() {
        let of = |value: Value, kind| bytes(&value, kind).unwrap().unwrap();
        assert_eq!(of(json!(true), Kind::Boolean), [1]);
        assert_eq!(of(json!(1), Kind::Boolean), [1]);
        assert_eq!(of(json!(true), Kind::Long), [0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(of(json!(u64::MAX), Kind::Long), i64::MAX.to_be_bytes());
        assert_eq!(of(json!(7), Kind::Integer), [0, 0, 0, 7]);
        assert_eq!(of(json!(7), Kind::Text), b"7");
        assert_eq!(of(json!(["a"]), Kind::Text), br#"["a"]"#);
        assert_eq!(of(json!(1), Kind::Float), 1f64.to_be_bytes());
        assert_eq!(bytes(&Value::Null, Kind::Long).unwrap(), None);
        assert!(bytes(&json!("a"), Kind::Long).is_err());
        let refused = Refusal::from(bytes(&json!("a\0"), Kind::Text).unwrap_err());
        assert_eq!(refused.code, Code::InvalidArgument);
        assert!(refused.message.contains("U+0000"), "{refused:?}");
    }

    #[test]
    fn what_an_agent_says_is_stored_without_the_character() {
        assert_eq!(DIALECT.storable("a\0b"), "a\u{fffd}b");
        assert_eq!(super::super::SQLITE.storable("a\0b"), "a\0b");
    }

    #[test]
    fn words_are_quoted_and_have_the_weights_of_their_places() {
        let (plans, terms) = (["p1".to_owned(), "p2".to_owned()], ["it's Caf\u{e9}".to_owned()]);
        let places = ["Two Words".to_owned()];
        let words = words(&Words { plans: &plans, terms: Terms::All(&terms), places: &places });
        let words: Value = serde_json::from_str(&words).unwrap();
        assert_eq!(words["query"], "('p1':C | 'p2':C) & ('it s cafe':AB) & ('two words':B)");
        assert_eq!(
            (&words["terms"], &words["places"]),
            (&json!(["it s cafe"]), &json!(["two words"]))
        );
    }
}
