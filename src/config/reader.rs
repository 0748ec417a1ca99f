//! Reads typed values out of a parsed `config.toml`; each error names the line. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use provost_actors::host::is_label;
use provost_actors::nearest::nearest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::allowed::LABELS;
use super::{ConfigError, Result};

/// A `config.toml`: its name, for messages, and its text, for line numbers.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub file: &'a Path,
    pub text: &'a str,
}

impl<'a> Source<'a> {
    /// The whole file as its root table.
    pub fn parse(self) -> Result<DeTable<'a>> {
        DeTable::parse(self.text).map(Spanned::into_inner).map_err(|error| {
            let place = self.place(error.span().map_or(0, |span| span.start));
            ConfigError(format!("{place}: {}", error.message()))
        })
    }

    /// The file, and the line, from 1, on which a byte of the text lies.
    fn place(self, offset: usize) -> String {
        let before = self.text.as_bytes().iter().take(offset);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        format!("{}:{line}", self.file.display())
    }
}

/// A table of the file and the dotted path to it.
pub struct Table<'a> {
    source: Source<'a>,
    path: String,
    entries: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    pub fn root(source: Source<'a>, entries: &'a DeTable<'a>) -> Self {
        Self { source, path: String::new(), entries }
    }

    /// Refuses keys that are not among `known`.
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

    /// A value, if its key is there.
    pub fn get(&self, key: &str) -> Option<Item<'a>> {
        let value = self.entries.get(key)?;
        Some(Item { source: self.source, path: self.join(key), value })
    }

    /// Reads the value of a key into `target`, if the key is there.
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

    /// The value of a key, or the default if the key is not there.
    pub fn value<T: Default>(
        &self,
        key: &str,
        read: impl FnOnce(&Item<'a>) -> Result<T>,
    ) -> Result<T> {
        self.get(key).map_or_else(|| Ok(T::default()), |item| read(&item))
    }

    /// Every value with its key, in the order of the keys.
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

/// A value of the file and the dotted path to it.
pub struct Item<'a> {
    source: Source<'a>,
    path: String,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Item<'a> {
    /// The place of the value in the file.
    pub fn origin(&self) -> String {
        self.source.place(self.value.span().start)
    }

    pub fn table(&self) -> Result<Table<'a>> {
        let entries = self.value.get_ref().as_table().ok_or_else(|| self.invalid("a table"))?;
        Ok(Table { source: self.source, path: self.path.clone(), entries })
    }

    pub fn text(&self) -> Result<String> {
        let text = self.value.get_ref().as_str().ok_or_else(|| self.invalid("a string"))?;
        if text.contains('\0') {
            return Err(self.invalid("a string without NUL characters"));
        }
        Ok(text.to_owned())
    }

    pub fn boolean(&self) -> Result<bool> {
        self.value.get_ref().as_bool().ok_or_else(|| self.invalid("true or false"))
    }

    /// The value that its text is the name of.
    pub fn one_of<T: Copy>(&self, named: &[(&str, T)]) -> Result<T> {
        let text = self.text()?;
        let found = named.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
            self.invalid(&format!("one of {}", names.join(", ")))
        })
    }

    /// A whole number that is not negative; `None` for anything else.
    pub fn integer(&self) -> Option<u64> {
        let number = self.value.get_ref().as_integer()?;
        u64::from_str_radix(number.as_str(), number.radix()).ok()
    }

    /// Refuses a key that is no plain name: such names appear in tool calls, on command
    /// lines and in messages.
    pub fn is_named_well(&self, name: &str) -> Result<()> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if (1..=64).contains(&name.len()) && name.chars().all(plain) {
            return Ok(());
        }
        Err(self.invalid("a name of 1 to 64 letters, digits, `.`, `_` or `-`"))
    }

    pub fn texts(&self) -> Result<Vec<String>> {
        let all = self.items().ok_or_else(|| self.invalid("an array of strings"))?;
        all.iter().map(Item::text).collect()
    }

    /// The tables of an array.
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

    /// Labels of hosts.
    pub fn labels(&self) -> Result<Vec<String>> {
        let labels = self.texts().ok().filter(|all| all.iter().all(|it| is_label(it)));
        labels.ok_or_else(|| self.invalid(LABELS))
    }

    /// A table of strings that can be an environment.
    pub fn environment(&self) -> Result<BTreeMap<String, String>> {
        let pair = |(key, item): (&str, Item<'_>)| {
            if key.is_empty() || key.contains(['=', '\0']) {
                return Err(self.invalid("names without `=` for its keys"));
            }
            Ok((key.to_owned(), item.text()?))
        };
        self.table()?.items().map(pair).collect()
    }

    /// The error that this value is not what is expected.
    pub fn invalid(&self, expected: &str) -> ConfigError {
        ConfigError(format!("{}: `{}` must be {expected}", self.origin(), self.path))
    }
}
