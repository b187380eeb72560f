//! The form: a query as a text, or its parts in fields of their own.

use url::form_urlencoded::Serializer;

use crate::http::api::query::pasted_query;
use crate::http::console::context::Problem;
use crate::http::placement::query::Query;

/// Number of amounts that have fields.
pub(super) const AMOUNTS: usize = 4;
/// Classes of the fields, unless they are chosen.
const USUAL: [&str; AMOUNTS] = ["VCPU", "MEMORY_MB", "DISK_GB", ""];

/// The fields, as they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// A query, a line of a log with one, or the id of a request.
    pub(super) query: String,
    /// The path of the request with the id, for a replica that has not kept it.
    pub(super) path: String,
    /// A class and an amount each.
    pub(super) amounts: Vec<(String, String)>,
    pub(super) required: String,
    pub(super) member_of: String,
}

/// The question that the form asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// The form was not filled.
    Nothing,
    /// A request that the server has kept, by its id.
    Kept(String),
    /// A query, in the syntax of URLs.
    Query(String),
}

impl Form {
    /// Reads the fields.
    ///
    /// # Errors
    /// A field is unknown or repeated.
    pub(super) fn of(query: &Query) -> Result<Self, Problem> {
        let classes: Vec<String> = (0..AMOUNTS).map(|nth| format!("class{nth}")).collect();
        let amounts: Vec<String> = (0..AMOUNTS).map(|nth| format!("amount{nth}")).collect();
        let is_known = |name: &str| {
            ["query", "path", "required", "member_of"].contains(&name)
                || classes.iter().chain(&amounts).any(|known| known == name)
        };
        if let Some(name) = query.names().find(|name| !is_known(name)) {
            let why = format!("{name} is not a field of this form. Put a whole query into query.");
            return Err(Problem::bad_request(why));
        }
        let text = |name: &str| -> Result<String, Problem> {
            Ok(query.once(name)?.unwrap_or_default().trim().to_owned())
        };
        let pairs = classes.iter().zip(&amounts).zip(USUAL);
        let pairs = pairs.map(|((class, amount), usual)| {
            let chosen = query.once(class)?.map_or(usual, str::trim);
            Ok((chosen.to_owned(), text(amount)?))
        });
        Ok(Self {
            query: text("query")?,
            path: text("path")?,
            amounts: pairs.collect::<Result<_, Problem>>()?,
            required: text("required")?,
            member_of: text("member_of")?,
        })
    }

    /// Returns the question. A text takes precedence over the other fields.
    pub(super) fn question(&self) -> Question {
        if self.query.starts_with("req-") {
            return Question::Kept(self.query.clone());
        }
        if !self.query.is_empty() {
            return Question::Query(pasted_query(&self.query).to_owned());
        }
        let amounts: Vec<String> = self
            .amounts
            .iter()
            .filter(|(class, amount)| !class.is_empty() && !amount.is_empty())
            .map(|(class, amount)| format!("{class}:{amount}"))
            .collect();
        if amounts.is_empty() {
            return Question::Nothing;
        }
        let mut query = Serializer::new(String::new());
        query.append_pair("resources", &amounts.join(","));
        for (name, value) in [("required", &self.required), ("member_of", &self.member_of)] {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        Question::Query(query.finish())
    }
}

/// Returns a query in the syntax of URLs.
pub(super) fn encoded(query: &Query) -> String {
    Serializer::new(String::new()).extend_pairs(query.pairs()).finish()
}

#[cfg(test)]
mod tests {
    use super::{Form, Question, encoded};
    use crate::http::placement::query::Query;

    fn question(query: &str) -> Question {
        Form::of(&Query::parse(query).unwrap()).unwrap().question()
    }

    fn written(text: &str) -> String {
        Query::parse(text).unwrap().written()
    }

    #[test]
    fn fields_make_a_query() {
        assert_eq!(question(""), Question::Nothing);
        assert_eq!(question("amount0=&class3=VGPU&required=A"), Question::Nothing);
        let Question::Query(query) =
            question("amount0=2&class3=VGPU&amount3=1&required=HW_A,!CUSTOM_B&member_of=in:x")
        else {
            panic!()
        };
        assert_eq!(
            written(&query),
            "resources=VCPU:2,VGPU:1&required=HW_A,!CUSTOM_B&member_of=in:x"
        );
    }

    #[test]
    fn a_line_of_a_log_has_a_query() {
        let line = "query=GET+/placement/allocation_candidates%3Flimit%3D5%26resources%3DVCPU%253A1+HTTP/1.1";
        assert_eq!(question(line), Question::Query("limit=5&resources=VCPU%3A1".to_owned()));
        assert_eq!(
            question("query=resources%3DVCPU:1&amount0=7"),
            Question::Query("resources=VCPU:1".to_owned())
        );
        assert_eq!(question("query=req-7"), Question::Kept("req-7".to_owned()));
    }

    #[test]
    fn a_query_can_be_put_into_a_shell() {
        let query = Query::parse("resources=VCPU:1&required='$(id)'").unwrap();
        assert_eq!(encoded(&query), "resources=VCPU%3A1&required=%27%24%28id%29%27");
    }

    #[test]
    fn an_unknown_field_is_named() {
        let wrong = Form::of(&Query::parse("resources=VCPU:1").unwrap()).unwrap_err();
        assert!(wrong.detail.starts_with("resources is not a field of this form."));
    }
}
