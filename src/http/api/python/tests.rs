use serde_json::{Value, json};

use super::{pretty, repr};

#[test]
fn a_value_on_one_line() {
    for (value, expected) in [
        (json!(null), "None"),
        (json!(true), "True"),
        (json!(-5), "-5"),
        (json!(1.0), "1.0"),
        (json!(0.1), "0.1"),
        (json!(1e15), "1000000000000000.0"),
        (json!(1e16), "1e+16"),
        (json!(1.234_567_890_123_456_8e17), "1.2345678901234568e+17"),
        (json!(0.0001), "0.0001"),
        (json!(0.00001), "1e-05"),
        (json!(1.5e-7), "1.5e-07"),
        (json!(9_223_372_036_854_775_808_u64), "9223372036854775808"),
        (json!("a"), "'a'"),
        (json!("it's"), "\"it's\""),
        (json!("it's \"x\""), "'it\\'s \"x\"'"),
        (
            json!("a\\b\n\t\u{1}\u{7f}\u{a0}\u{2028}\u{e0001}é😀"),
            "'a\\\\b\\n\\t\\x01\\x7f\\xa0\\u2028\\U000e0001é😀'",
        ),
        (json!({"a": [1, {"b": null}], "c": {}}), "{'a': [1, {'b': None}], 'c': {}}"),
    ] {
        assert_eq!(repr(&value), expected);
    }
}

fn laid_out(value: &Value, lines: &[&str]) {
    assert_eq!(pretty(value).lines().collect::<Vec<_>>(), lines);
}

#[test]
fn a_wide_list_has_an_item_a_line() {
    let items: Vec<String> = (0..5).map(|nth| format!("item number {nth}")).collect();
    laid_out(
        &json!({ "key": items }),
        &[
            "{'key': ['item number 0',",
            "         'item number 1',",
            "         'item number 2',",
            "         'item number 3',",
            "         'item number 4']}",
        ],
    );
}

#[test]
fn a_wide_text_is_broken_after_blanks_and_line_ends() {
    laid_out(
        &json!("word ".repeat(20)),
        &[
            "('word word word word word word word word word word word word word '",
            " 'word word word word word word word ')",
        ],
    );
    laid_out(
        &json!(format!("line one\nline two\n{}", "z".repeat(80))),
        &["('line one\\n'", " 'line two\\n'", &format!(" '{}')", "z".repeat(80))],
    );
    laid_out(
        &json!({"a": "word ".repeat(20), "b": [1, 2, 3]}),
        &[
            "{'a': 'word word word word word word word word word word word word '",
            "      'word word word word word word word word ',",
            " 'b': [1, 2, 3]}",
        ],
    );
}

#[test]
fn an_empty_text_is_shown_however_little_room_there_is() {
    let name = "x".repeat(90);
    laid_out(&json!({"a": 1, &name: ""}), &["{'a': 1,", &format!(" '{name}': ''}}")]);
}

#[test]
fn a_word_that_is_too_wide_stays_whole() {
    let word = "x".repeat(80);
    laid_out(&json!([word]), &[&format!("['{word}']")]);
}
