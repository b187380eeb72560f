//! Notations of UUIDs, which depend on where the UUID is used.

use uuid::Uuid;

/// Parses a UUID in any notation: with or without dashes, in any case, in braces, as a URN.
pub(in crate::http) fn any_uuid(text: &str) -> Option<Uuid> {
    let text = text.replace("urn:", "").replace("uuid:", "");
    let digits = text.trim_matches(['{', '}']).replace('-', "");
    let hexadecimal = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hexadecimal { Uuid::try_parse(&digits).ok() } else { None }
}

/// Parses a UUID with four dashes in the usual places, in any case. Providers are written so in
/// paths and as keys of bodies; other notations match no provider.
pub(in crate::http) fn dashed_uuid(text: &str) -> Option<Uuid> {
    if text.len() == 36 { Uuid::try_parse(text).ok() } else { None }
}

/// Parses a consumer's UUID in a path or as a key of a body: 36 characters, with four dashes
/// anywhere.
pub(in crate::http) fn consumer_uuid(text: &str) -> Option<Uuid> {
    let is_key =
        text.len() == 36 && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    if is_key { any_uuid(text) } else { None }
}

#[cfg(test)]
mod tests {
    use uuid::{Uuid, uuid};

    use super::{any_uuid, consumer_uuid, dashed_uuid};

    const A: Uuid = uuid!("5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901");

    #[test]
    fn spellings() {
        for (text, any, consumer, dashed) in [
            ("5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901", true, true, true),
            ("5C0BFA84-6B1C-4BBD-9D2F-7E8A4C3DE901", true, true, true),
            ("5c0bfa846b1c4bbd9d2f7e8a4c3de901----", true, true, false),
            ("5-c0bfa846b1c4bbd9d2f7e8a4c3de90---1", true, true, false),
            ("5c0bfa846b1c4bbd9d2f7e8a4c3de901", true, false, false),
            ("5c0bfa846b1c4bbd9d2f7e8a4c3de901---", true, false, false),
            ("{5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901}", true, false, false),
            ("{{5c0bfa846b1c4bbd9d2f7e8a4c3de901", true, false, false),
            ("{{5c0bfa846b1c4bbd9d2f7e8a4c3de901}}", true, false, false),
            ("urn:5c0bfa846b1c4bbd9d2f7e8a4c3de901", true, false, false),
            ("urn:uuid:5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901", true, false, false),
            ("5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de90", false, false, false),
            ("5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de90g", false, false, false),
            ("5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de9012", false, false, false),
            ("5c0bfa846b1c4bbd9d2f7e8a4c3de9012---", false, false, false),
            (" 5c0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901", false, false, false),
            ("0x0bfa84-6b1c-4bbd-9d2f-7e8a4c3de901", false, false, false),
            ("", false, false, false),
        ] {
            assert_eq!(any_uuid(text), any.then_some(A), "{text}");
            assert_eq!(consumer_uuid(text), consumer.then_some(A), "{text}");
            assert_eq!(dashed_uuid(text), dashed.then_some(A), "{text}");
        }
    }
}
