//! JSON values in requests and stored plans.

use serde_json::{Map, Value};

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// Maximum length of a name or id, in characters.
pub(crate) const NAME_MAX: usize = 255;

/// Reads a text of at most `most` characters.
///
/// # Errors
/// The fault of the value.
pub(crate) fn read_text(value: &Value, most: usize) -> Result<&str, String> {
    let text = value.as_str().ok_or("not of type string")?;
    if text.chars().nth(most).is_some() {
        return Err(format!("longer than {most} characters"));
    }
    Ok(text)
}

/// The fault of a value that is not a text of at most `most` characters.
pub(crate) fn text_fault(value: &Value, most: usize) -> Option<String> {
    read_text(value, most).err()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{read_text, text_fault};

    #[test]
    fn a_text_is_counted_in_characters() {
        assert_eq!(read_text(&json!("äöü"), 3), Ok("äöü"));
        assert_eq!(text_fault(&json!("äöü"), 2).as_deref(), Some("longer than 2 characters"));
        assert_eq!(text_fault(&json!(3), 2).as_deref(), Some("not of type string"));
    }
}
