//! Passages as they are kept: a quote that several share is written once. Pure.

use super::Passage;

/// Passages of a section as JSON.
///
/// # Errors
/// None that is known of: they are text and numbers.
pub fn pack(passages: &[Passage]) -> serde_json::Result<String> {
    let mut last = None;
    let packed = passages.iter().map(|passage| {
        let is_again = last.replace(&passage.quote) == Some(&passage.quote);
        let quote = if is_again { String::new() } else { passage.quote.clone() };
        Passage { quote, ..passage.clone() }
    });
    serde_json::to_string(&packed.collect::<Vec<_>>())
}

/// The passages that were packed.
///
/// # Errors
/// If it is not what [`pack`] gives.
pub fn unpack(packed: &str) -> serde_json::Result<Vec<Passage>> {
    let mut passages: Vec<Passage> = serde_json::from_str(packed)?;
    let mut last = String::new();
    for passage in &mut passages {
        if passage.quote.is_empty() {
            passage.quote.clone_from(&last);
        } else {
            last.clone_from(&passage.quote);
        }
    }
    Ok(passages)
}
