//! The order of allocation candidates.

use std::sync::Arc;

use clap::{Args, ValueEnum};

use crate::http::app::CandidateOrder;
use crate::search::Ranking;
use crate::search::ranking::Weight;

/// Order of hosts among allocation candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderKind {
    /// No meaningful order, as in OpenStack Placement.
    None,
    /// The fullest hosts first.
    Pack,
    /// The emptiest hosts first.
    Spread,
    /// Random, with a random selection when there is a limit.
    Random,
    /// By --candidate-weights, the greatest sum first.
    Weights,
}

/// Options of the order of candidates.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Order of candidates")]
pub struct CandidateOptions {
    /// Order of the hosts among allocation candidates; a `limit` takes the first.
    ///
    /// `pack` and `spread` look at the classes of the request.
    #[arg(long, default_value = "none", value_name = "ORDER")]
    pub candidate_order: OrderKind,

    /// Weights for the score of a host with --candidate-order weights; may be repeated.
    ///
    /// The weight of a resource class counts in proportion to the share of it that is free, those of
    /// a trait and of an aggregate count for hosts that have it or are in it. For example,
    /// `MEMORY_MB=1`, `trait:CUSTOM_OLD=-0.5` or `aggregate:UUID=2`.
    #[arg(long, value_name = "SUBJECT=WEIGHT", value_delimiter = ',', allow_hyphen_values = true)]
    pub candidate_weights: Vec<Weight>,
}

impl CandidateOptions {
    /// The order of the hosts.
    ///
    /// # Errors
    /// The options contradict each other.
    pub fn order(&self) -> Result<CandidateOrder, String> {
        let has_weights = !self.candidate_weights.is_empty();
        if has_weights && self.candidate_order != OrderKind::Weights {
            return Err("--candidate-weights needs --candidate-order weights".to_owned());
        }
        let ranking = match self.candidate_order {
            OrderKind::None => return Ok(CandidateOrder::Stored),
            OrderKind::Random => return Ok(CandidateOrder::Random),
            OrderKind::Weights if !has_weights => {
                return Err("--candidate-order weights needs --candidate-weights".to_owned());
            }
            OrderKind::Pack => Ranking::Pack,
            OrderKind::Spread => Ranking::Spread,
            OrderKind::Weights => Ranking::Weights(Arc::from(self.candidate_weights.as_slice())),
        };
        Ok(CandidateOrder::Ranked(ranking))
    }
}
