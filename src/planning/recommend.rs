//! Recommends another host for a server, without changing anything.

use std::sync::Arc;

use uuid::Uuid;

use super::budget::Budget;
use super::context::{PlanRef, Planning, Terms};
use super::failure::Failure;
use crate::planner::change::{Destinations, PlanChange};
use crate::planner::document::Document;
use crate::planner::draft::Draft;
use crate::planner::ids::{canonical, same};
use crate::planner::plan::{Placement, Plan};
use crate::planner::stack::{Server, Stack};
use crate::planner::template::Template;
use crate::store::planner::plans::Scope;

/// A request for a recommendation.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    /// The instance, or another id of its placement.
    pub(crate) resource: String,
    /// Hosts to avoid.
    pub(crate) excluded: Vec<String>,
    /// Allowed hosts; `None`: any.
    pub(crate) locations: Option<Vec<String>>,
}

/// A recommended host for a server.
#[derive(Clone, Debug)]
pub(crate) struct Recommendation {
    /// Its placement; `None` if no plan has it.
    pub(crate) placement: Option<Placement>,
    /// The recommended host.
    pub(crate) host: Option<String>,
    /// The current host.
    pub(crate) present: Option<String>,
}

impl Planning {
    /// Recommends another host for a server of a plan, or for a consumer outside all plans. Nothing is written,
    /// whatever the terms are.
    ///
    /// # Errors
    /// `ResourceNotFound`, and those of a [change](Self::change).
    pub(crate) async fn recommend(
        &self,
        wanted: Move,
        scope: Scope<'_>,
        terms: Terms,
    ) -> Result<Recommendation, Failure> {
        let terms = Terms { dry_run: true, ..terms };
        let Some(placement) = self.placement_of_resource(&wanted.resource, scope).await? else {
            return self.recommend_for_consumer(wanted, scope, terms).await;
        };
        let Move { excluded, locations, .. } = wanted;
        let servers = vec![placement.orchestration_id.clone()];
        let to = locations.map_or(Destinations::Any, Destinations::Among);
        let change = PlanChange::Migrate { servers, excluded, to, with_mates: false };
        let plan = PlanRef { key: &placement.plan.to_string(), scope };
        let planned = self.change(plan, change, None, terms).await?;
        let at = planned.draft.find_placement(placement.id);
        let host = at.and_then(|at| planned.hosts.get(at)).cloned().flatten();
        let present = self.location(&placement).await?;
        Ok(Recommendation { placement: Some(placement), host, present })
    }

    async fn recommend_for_consumer(
        &self,
        wanted: Move,
        scope: Scope<'_>,
        terms: Terms,
    ) -> Result<Recommendation, Failure> {
        let Move { resource, excluded, locations } = wanted;
        let missing = || Failure::ResourceNotFound(resource.clone());
        let consumer = Uuid::parse_str(&canonical(&resource)).map_err(|_| missing())?;
        let held = self.store.consumer_allocations(consumer).await?.ok_or_else(missing)?;
        if scope.only_project().is_some_and(|project| !same(project, &held.project)) {
            return Err(missing());
        }
        let world = self.store.world().await?;
        let topology = self.topology(&world);
        let providers = held.providers.iter().filter_map(|it| world.provider(it.provider));
        let present = topology.host(providers).map(|host| host.name().to_owned());
        let amounts = held.providers.iter().flat_map(|it| it.resources.iter().cloned());
        let mut server = Server::of_amounts(&resource, amounts);
        server.excluded = vec![Arc::new(excluded.into_iter().chain(present.clone()).collect())];
        server.locations =
            locations.into_iter().map(|list| Arc::new(list.into_iter().collect())).collect();
        let host = self.place_one(server, terms).await?;
        Ok(Recommendation { placement: None, host, present })
    }

    /// Chooses a host for one server outside all plans.
    async fn place_one(&self, server: Server, terms: Terms) -> Result<Option<String>, Failure> {
        let plan = Plan::new("", "", "", "");
        let draft = Draft::new(plan, Document::default(), &Template::default(), &[])?;
        let stack = Stack { servers: vec![server], ..Stack::default() };
        let draft = Draft { stack, ..draft };
        let turn = Budget::new(self, terms).turn(self, draft.open_servers()).await?;
        let world = self.store.world().await?;
        let around = self.surroundings(&[], &[], false).await?;
        let (_, solution, _) = self.solve(&world, draft, around, Some(turn)).await?;
        let placed = solution.and_then(|solution| solution.places.into_iter().next().flatten());
        Ok(placed.map(|placed| placed.host))
    }
}
