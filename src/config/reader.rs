//! Reads typed values from a parsed TOML file; each error names the file, the line and the key. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use provost_actors::host::is_label;
use provost_actors::nearest::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::allowed::LABELS;
use super::{ConfigError, Result};

/// A file: its name for messages, and its text for line numbers.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub file: &'a Path,
    pub text: &'a str,
}

impl<'a> Source<'a> {
    /// Parses the whole file.
    pub fn parse(self) -> Result<DeTable<'a>> {
        DeTable::parse(self.text).map(Spanned::into_inner).map_err(|error| {
            let place = self.place(error.span().map_or(0, |span| span.start));
            ConfigError(format!("{place}: {}", error.message()))
        })
    }

    /// The file and the line of a byte of the text, as `FILE:LINE`; the first line is 1.
    fn place(self, offset: usize) -> String {
        let before = self.text.as_bytes().iter().take(offset);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        format!("{}:{line}", self.file.display())
    }
}

/// A table of the file, with its dotted path.
pub struct Table<'a> {
    source: Source<'a>,
    path: String,
    entries: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    /// The root table, whose keys have no path before them.
    pub fn root(source: Source<'a>, entries: &'a DeTable<'a>) -> Self {
        Self { source, path: String::new(), entries }
    }

    /// Refuses keys that are not among `known`, and names the nearest known one.
    pub fn only(&self, known: &[&str]) -> Result<()> {
        let mut keys = self.entries.keys();
        let Some(key) = keys.find(|key| !known.contains(&key.get_ref().as_ref())) else {
            return Ok(());
        };
        let place = self.source.place(key.span().start);
        let nearest = nearest(key.get_ref(), known.iter().copied());
        let nearest = nearest.map(|name| format!("; did you mean `{}`?", self.join(name)));
        let (key, nearest) = (self.join(key.get_ref()), nearest.unwrap_or_default());
        Err(ConfigError(format!("{place}: unknown key `{key}`{nearest}")))
    }

    /// The value of a key, if the table has the key.
    pub fn get(&self, key: &str) -> Option<Item<'a>> {
        let value = self.entries.get(key)?;
        Some(Item { source: self.source, path: self.join(key), value })
    }

    /// Reads the value of a key into `target`. Without the key, `target` stays as it is.
    pub fn read<T>(
        &self,
        key: &str,
        target: &mut T,
        read: impl FnOnce(&Item<'a>) -> Result<T>,
    ) -> Result<()> {
        if let Some(item) = self.get(key) {
            *target = read(&item)?;
        }
        Ok(())
    }

    /// The value of a key, or the type's default if the table does not have the key.
    pub fn value<T: Default>(
        &self,
        key: &str,
        read: impl FnOnce(&Item<'a>) -> Result<T>,
    ) -> Result<T> {
        self.get(key).map_or_else(|| Ok(T::default()), |item| read(&item))
    }

    /// All values with their keys, sorted by key.
    pub fn items(&self) -> impl Iterator<Item = (&'a str, Item<'a>)> {
        self.entries.iter().map(|(key, value)| {
            let key = key.get_ref().as_ref();
            (key, Item { source: self.source, path: self.join(key), value })
        })
    }

    fn join(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// A value of the file, with its dotted path.
pub struct Item<'a> {
    source: Source<'a>,
    path: String,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Item<'a> {
    /// Where the value is, as `FILE:LINE`: for errors and `config show`.
    pub fn origin(&self) -> String {
        self.source.place(self.value.span().start)
    }

    /// The value as a table; an error if it is something else. The same holds for the readers below.
    pub fn table(&self) -> Result<Table<'a>> {
        let entries = self.value.get_ref().as_table().ok_or_else(|| self.invalid("a table"))?;
        Ok(Table { source: self.source, path: self.path.clone(), entries })
    }

    /// A string without NUL: paths, arguments and variables can't contain one.
    pub fn text(&self) -> Result<String> {
        let text = self.value.get_ref().as_str().ok_or_else(|| self.invalid("a string"))?;
        if text.contains('\0') {
            return Err(self.invalid("a string without NUL characters"));
        }
        Ok(text.to_owned())
    }

    /// `true` or `false`, and no text that says so.
    pub fn boolean(&self) -> Result<bool> {
        self.value.get_ref().as_bool().ok_or_else(|| self.invalid("true or false"))
    }

    /// The value whose name in `named` is the text.
    pub fn one_of<T: Copy>(&self, named: &[(&str, T)]) -> Result<T> {
        let text = self.text()?;
        let found = named.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
            self.invalid(&format!("one of {}", names.join(", ")))
        })
    }

    /// A whole number that is not negative, in any of TOML's bases; `None` for everything else.
    pub fn integer(&self) -> Option<u64> {
        let number = self.value.get_ref().as_integer()?;
        u64::from_str_radix(number.as_str(), number.radix()).ok()
    }

    /// Refuses a key that is no plain name of at most 64 characters: such names are written in tool
    /// calls, on command lines and in messages.
    pub fn is_named_well(&self, name: &str) -> Result<()> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if (1..=64).contains(&name.len()) && name.chars().all(plain) {
            return Ok(());
        }
        Err(self.invalid("a name of 1 to 64 letters, digits, `.`, `_` or `-`"))
    }

    /// An array of strings.
    pub fn texts(&self) -> Result<Vec<String>> {
        let all = self.items().ok_or_else(|| self.invalid("an array of strings"))?;
        all.iter().map(Item::text).collect()
    }

    /// The items of an array, each with its index in its path.
    pub fn each(&self) -> Result<Vec<Self>> {
        self.items().ok_or_else(|| self.invalid("an array of tables"))
    }

    fn items(&self) -> Option<Vec<Self>> {
        let item = |(index, value)| Item {
            source: self.source,
            path: format!("{}[{index}]", self.path),
            value,
        };
        Some(self.value.get_ref().as_array()?.iter().enumerate().map(item).collect())
    }

    /// An array of labels of hosts.
    pub fn labels(&self) -> Result<Vec<String>> {
        let labels = self.texts().ok().filter(|all| all.iter().all(|it| is_label(it)));
        labels.ok_or_else(|| self.invalid(LABELS))
    }

    /// A table of strings whose keys can be the names of variables.
    pub fn environment(&self) -> Result<BTreeMap<String, String>> {
        let pair = |(key, item): (&str, Item<'_>)| {
            if key.is_empty() || key.contains(['=', '\0']) {
                return Err(self.invalid("names without `=` for its keys"));
            }
            Ok((key.to_owned(), item.text()?))
        };
        self.table()?.items().map(pair).collect()
    }

    /// The error that this value must be `expected`.
    pub fn invalid(&self, expected: &str) -> ConfigError {
        ConfigError(format!("{}: `{}` must be {expected}", self.origin(), self.path))
    }
}
