//! The parameters of the page, which the form and the links of the page send.

use url::form_urlencoded::Serializer;

use super::survey::{Grouping, ListOrder};
use crate::http::console::context::Problem;
use crate::http::placement::query::Query;

/// Maximum length of a text to find, in characters.
const TEXT_MAX: usize = 255;
/// Maximum number of a page.
const PAGE_MAX: usize = 1_000_000;
const NAMES: [&str; 7] = ["find", "class", "by", "area", "order", "view", "page"];

/// The parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    /// The text to find; may be empty.
    pub(super) find: String,
    /// The class by which hosts are coloured and sorted; empty: the fullest of each.
    pub(super) class: String,
    /// The areas; `None`: the first that any host has.
    pub(super) by: Option<Grouping>,
    /// The only area; empty: hosts that are in none.
    pub(super) area: Option<String>,
    pub(super) order: ListOrder,
    /// Whether hosts are listed, and not drawn in their areas.
    pub(super) is_list: bool,
    /// The page, from 1.
    pub(super) page: usize,
}

impl Parameters {
    /// Reads the parameters.
    ///
    /// # Errors
    /// One is unknown, repeated or invalid.
    pub(super) fn of(query: &Query) -> Result<Self, Problem> {
        if let Some(name) = query.names().find(|name| !NAMES.contains(name)) {
            let names = NAMES.join(", ");
            return Err(Problem::bad_request(format!(
                "{name} is not one of the parameters {names}."
            )));
        }
        let text = |name| -> Result<String, Problem> {
            let text = query.once(name)?.unwrap_or_default().trim().to_owned();
            if text.chars().count() > TEXT_MAX {
                let why = format!("{name} can have at most {TEXT_MAX} characters.");
                return Err(Problem::bad_request(why));
            }
            Ok(text)
        };
        let by = one_of("by", &text("by")?, &Grouping::ALL)?;
        let area = query.once("area")?.map(str::to_owned);
        if area.is_some() && by.is_none() {
            return Err(Problem::bad_request("area needs by, which says what kind of area it is."));
        }
        let view = text("view")?;
        if !["", "map", "list"].contains(&view.as_str()) {
            return Err(Problem::bad_request(format!("view must be map or list, not {view}.")));
        }
        let find = text("find")?;
        Ok(Self {
            // Hosts that were found, and those of one area, are few enough to be read.
            is_list: view == "list" || view.is_empty() && (!find.is_empty() || area.is_some()),
            find,
            class: text("class")?,
            by,
            area,
            order: one_of("order", &text("order")?, &ListOrder::ALL)?.unwrap_or(ListOrder::Name),
            page: query.number("page", 1, 1..=PAGE_MAX)?,
        })
    }

    /// Returns the query of these parameters.
    pub(super) fn query(&self) -> String {
        let mut query = Serializer::new(String::new());
        let by = self.by.map_or("", |by| name_of(by, &Grouping::ALL));
        let order =
            if self.order == ListOrder::Name { "" } else { name_of(self.order, &ListOrder::ALL) };
        let page = if self.page > 1 { self.page.to_string() } else { String::new() };
        let view = if self.is_list { "list" } else { "map" };
        for (name, value) in [
            ("find", self.find.as_str()),
            ("class", &self.class),
            ("by", by),
            ("order", order),
            ("view", view),
            ("page", &page),
        ] {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        if let Some(area) = &self.area {
            query.append_pair("area", area);
        }
        query.finish()
    }
}

/// Returns the value with a name; `None` if the name is empty.
fn one_of<T: Copy>(
    parameter: &str,
    name: &str,
    all: &[(T, &str, &str)],
) -> Result<Option<T>, Problem> {
    if name.is_empty() {
        return Ok(None);
    }
    let value = all.iter().find(|(_, known, _)| *known == name).map(|(value, ..)| *value);
    value.map(Some).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(_, name, _)| *name).collect();
        let names = names.join(", ");
        Problem::bad_request(format!("{parameter} must be one of {names}, not {name}."))
    })
}

/// Returns the name of a value.
pub(super) fn name_of<T: Copy + PartialEq>(
    value: T,
    all: &[(T, &'static str, &'static str)],
) -> &'static str {
    all.iter().find(|(known, ..)| *known == value).map_or("", |(_, name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::{Grouping, ListOrder, Parameters};
    use crate::http::placement::query::Query;

    fn parsed(query: &str) -> Result<Parameters, String> {
        Parameters::of(&Query::parse(query).unwrap()).map_err(|problem| problem.detail)
    }

    #[test]
    fn links_keep_all_parameters() {
        for query in [
            "view=map",
            "find=a+%26+b&class=VCPU&by=rack&order=fullest&view=list&page=3&area=r%201",
            "by=zone&view=list&area=",
        ] {
            let parameters = parsed(query).unwrap();
            assert_eq!(parsed(&parameters.query()), Ok(parameters), "{query}");
        }
    }

    #[test]
    fn what_is_found_is_listed() {
        assert!(!parsed("").unwrap().is_list);
        assert!(!parsed("find=&class=").unwrap().is_list);
        assert!(parsed("find=x").unwrap().is_list);
        assert!(!parsed("find=x&view=map").unwrap().is_list);
        let area = parsed("by=rack&area=r1&order=emptiest").unwrap();
        assert_eq!(
            (area.is_list, area.by, area.order),
            (true, Some(Grouping::Rack), ListOrder::Emptiest)
        );
    }

    #[test]
    fn a_wrong_parameter_is_named() {
        for (query, why) in [
            (
                "colour=red",
                "colour is not one of the parameters find, class, by, area, order, view, page.",
            ),
            ("by=row", "by must be one of rack, cluster, zone, aggregate, not row."),
            ("order=size", "order must be one of name, fullest, emptiest, stranded, not size."),
            ("view=globe", "view must be map or list, not globe."),
            ("area=r1", "area needs by, which says what kind of area it is."),
        ] {
            assert_eq!(parsed(query), Err(why.to_owned()), "{query}");
        }
        assert!(parsed("page=0").is_err() && parsed("page=x").is_err());
        assert!(parsed(&format!("find={}", "x".repeat(256))).unwrap_err().contains("at most 255"));
    }
}
