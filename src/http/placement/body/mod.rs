//! Request bodies: JSON that is checked against a schema and parsed into wire types.

use axum::body::Bytes;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::problem::Problem;
use super::schema::Schema;
use crate::http::api::json::has_nul;
use crate::http::api::python::repr;

/// The body of a request.
#[derive(Clone, Debug, Default)]
pub(in crate::http) struct Body(pub(in crate::http) Bytes);

impl Body {
    /// Parses the body into a wire type, if it is JSON and matches the schema.
    pub(super) fn parse<T: DeserializeOwned>(&self, schema: &Schema) -> Result<T, Problem> {
        let value = serde_json::from_slice(&self.0)
            .map_err(|error| Problem::bad_request(format!("Malformed JSON: {error}")))?;
        check(&value, schema)?;
        serde_json::from_value(value).map_err(|error| not_valid(&error.to_string()))
    }
}

/// Checks a value like a body.
pub(super) fn check(value: &Value, schema: &Schema) -> Result<(), Problem> {
    schema.check(value).map_err(|violation| not_valid(&violation))?;
    if has_nul(value) {
        return Err(not_valid("a NUL character is not allowed in a text"));
    }
    Ok(())
}

fn not_valid(why: &str) -> Problem {
    Problem::bad_request(format!("JSON does not validate: {why}"))
}

/// An integer. Clients may write `8.0` for 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Integer<T = i64>(pub(super) T);

/// An integer type and its bounds.
pub(super) trait Bounded: TryFrom<i64> {
    const MIN: i64;
    const MAX: i64;
}

impl Bounded for i64 {
    const MIN: i64 = Self::MIN;
    const MAX: i64 = Self::MAX;
}

impl Bounded for i32 {
    const MIN: i64 = Self::MIN as i64;
    const MAX: i64 = Self::MAX as i64;
}

impl<'de, T: Bounded> Deserialize<'de> for Integer<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let fitting = integer(&number).and_then(|whole| T::try_from(whole).ok());
        fitting.map(Self).ok_or_else(|| {
            let (which, bound) = if number.as_f64().is_some_and(|value| value < 0.0) {
                ("less than the minimum", T::MIN)
            } else {
                ("greater than the maximum", T::MAX)
            };
            Error::custom(format!("{} is {which} of {bound}", repr(&Value::from(number))))
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it is whole and within the bounds")]
fn integer(number: &serde_json::Number) -> Option<i64> {
    /// 2^63, to which doubles round integers that are out of range.
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    let value = number.as_f64()?;
    (value.fract() == 0.0 && value.abs() < BOUND).then_some(value as i64)
}

#[cfg(test)]
pub(in crate::http::placement) mod tests;
