//! Writes resource providers as JSON bytes.

use std::sync::Arc;

use axum::body::Bytes;
use uuid::Uuid;

use crate::http::api::streamed::PART;
use crate::http::api::text::Text;
use crate::model::Bug;
use crate::model::provider::InventoryRow;
use crate::store::snapshot::Allocation;
use crate::world::{Provider, World};

/// Details of providers in a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that a client may ask for")]
pub(in crate::http) struct Include {
    pub(in crate::http) inventories: bool,
    pub(in crate::http) usages: bool,
    pub(in crate::http) traits: bool,
    pub(in crate::http) aggregates: bool,
    pub(in crate::http) allocations: bool,
}

/// Form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Form {
    Json,
    /// A line of JSON with the metadata, and one for each provider.
    Lines,
}

/// A provider that is partly written.
#[derive(Debug)]
pub(in crate::http) struct OpenProvider {
    /// The last consumer, whose object is open.
    pub(in crate::http) consumer: Option<Uuid>,
}

/// A response being written.
#[derive(Debug)]
pub(in crate::http) struct Writing {
    pub(in crate::http) world: Arc<World>,
    /// The providers, ascending by key.
    pub(in crate::http) slots: Vec<u32>,
    pub(in crate::http) include: Include,
    pub(in crate::http) form: Form,
    pub(in crate::http) text: Text,
    /// Number of complete providers.
    pub(in crate::http) written: usize,
    /// The next provider, if it is partly written.
    pub(in crate::http) open: Option<OpenProvider>,
}

impl Writing {
    /// Starts a response with these providers.
    pub(super) fn new(
        world: Arc<World>,
        slots: Vec<u32>,
        number: Option<i64>,
        include: Include,
        form: Form,
    ) -> Self {
        let mut text = Text::with_room(PART + PART / 4);
        text.push("{\"number\":");
        match number {
            Some(number) => text.number(number),
            None => text.push("null"),
        }
        text.push(",\"count\":");
        text.count(slots.len());
        text.push(match form {
            Form::Json => ",\"providers\":[",
            Form::Lines => "}\n",
        });
        Self { world, slots, include, form, text, written: 0, open: None }
    }

    /// Returns whether all providers are written.
    pub(super) fn is_written(&self) -> bool {
        self.written == self.slots.len()
    }

    /// Returns the number of bytes that were written and not taken.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Takes the bytes written so far.
    pub(super) fn take(&mut self) -> Bytes {
        self.text.take(PART + PART / 4)
    }

    /// Returns the keys of the next providers, at most `count`.
    pub(super) fn following(&self, count: usize) -> Vec<i64> {
        let slots = self.slots.iter().skip(self.written).take(count);
        slots.map(|slot| self.world.occupied(*slot).id().0).collect()
    }

    /// Writes providers without allocations until there are `enough` bytes.
    pub(super) fn write(&mut self, enough: usize) {
        while self.text.len() < enough && !self.is_written() {
            self.open();
            self.close();
        }
    }

    /// Writes allocations of the next providers, in order. More may follow.
    pub(super) fn hold(&mut self, rows: &[Allocation]) {
        for row in rows {
            loop {
                if self.open.is_none() {
                    self.open();
                }
                if self.present().id() == row.provider {
                    break;
                }
                self.close();
            }
            self.allocation(row);
        }
    }

    /// Completes these providers, which are the next ones.
    pub(super) fn pass(&mut self, providers: &[i64]) {
        let last = providers.last().copied();
        while let Some(last) = last.filter(|_| !self.is_written()) {
            if self.present().id().0 > last {
                return;
            }
            if self.open.is_none() {
                self.open();
            }
            self.close();
        }
    }

    pub(super) fn finish(&mut self) {
        if self.form == Form::Json {
            self.text.push("]}");
        }
    }

    fn present(&self) -> Provider<'_> {
        let missing = || Bug::raise("an allocation is on none of the providers".to_owned());
        let slot = self.slots.get(self.written).copied().unwrap_or_else(missing);
        self.world.occupied(slot)
    }

    /// Starts the next provider.
    fn open(&mut self) {
        if self.form == Form::Json && self.written > 0 {
            self.text.push(",");
        }
        let world = Arc::clone(&self.world);
        let missing = || Bug::raise("there is no further provider".to_owned());
        let slot = self.slots.get(self.written).copied().unwrap_or_else(missing);
        self.text.provider(&world.occupied(slot), self.include, &world);
        if self.include.allocations {
            self.text.push(",\"allocations\":{");
        }
        self.open = Some(OpenProvider { consumer: None });
    }

    /// Ends the current provider.
    fn close(&mut self) {
        if self.open.as_ref().is_some_and(|open| open.consumer.is_some()) {
            self.text.push("}}");
        }
        if self.include.allocations {
            self.text.push("}");
        }
        self.text.push(if self.form == Form::Lines { "}\n" } else { "}" });
        self.open = None;
        self.written += 1;
    }

    /// Writes an allocation of the current provider.
    fn allocation(&mut self, row: &Allocation) {
        let text = &mut self.text;
        if let Some(OpenProvider { consumer: last }) = self.open.as_mut() {
            if *last == Some(row.consumer) {
                text.push(",");
            } else {
                if last.is_some() {
                    text.push("}},");
                }
                *last = Some(row.consumer);
                text.uuid(row.consumer);
                text.push(":{\"project_id\":");
                text.string(&row.project);
                text.push(",\"user_id\":");
                text.string(&row.user);
                text.push(",\"consumer_type\":");
                text.string(row.consumer_type.as_deref().unwrap_or("unknown"));
                text.push(",\"consumer_generation\":");
                text.number(row.generation);
                text.push(",\"resources\":{");
            }
        }
        text.amounts(&[(row.class, row.used)], &self.world);
    }
}

impl Text {
    /// Writes a provider without its end.
    fn provider(&mut self, provider: &Provider<'_>, include: Include, world: &World) {
        self.push("{\"uuid\":");
        self.uuid(provider.uuid());
        self.push(",\"name\":");
        self.string(provider.name());
        self.push(",\"generation\":");
        self.number(provider.generation());
        self.push(",\"parent_provider_uuid\":");
        match provider.parent() {
            Some(parent) => self.uuid(parent.uuid()),
            None => self.push("null"),
        }
        self.push(",\"root_provider_uuid\":");
        self.uuid(provider.root().uuid());
        if include.inventories {
            self.push(",\"inventories\":{");
            for (nth, row) in provider.inventories().enumerate() {
                self.push(if nth > 0 { ",\"" } else { "\"" });
                self.inventory(&row, world);
            }
            self.push("}");
        }
        if include.usages {
            self.push(",\"usages\":{");
            for (nth, row) in provider.inventories().enumerate() {
                if nth > 0 {
                    self.push(",");
                }
                self.amounts(&[(row.class, row.used)], world);
            }
            self.push("}");
        }
        if include.traits {
            self.push(",\"traits\":");
            self.traits(provider.traits(), world);
        }
        if include.aggregates {
            self.push(",\"aggregates\":[");
            for (nth, aggregate) in provider.aggregates_as_spelled().iter().enumerate() {
                if nth > 0 {
                    self.push(",");
                }
                self.string(aggregate);
            }
            self.push("]");
        }
    }

    /// Writes an inventory with its class, after the opening quote.
    fn inventory(&mut self, row: &InventoryRow, world: &World) {
        let terms = row.terms;
        self.push(world.name_of_class(row.class));
        self.push("\":{\"total\":");
        self.number(terms.total.into());
        for (name, value) in [
            (",\"reserved\":", terms.reserved),
            (",\"min_unit\":", terms.min_unit),
            (",\"max_unit\":", terms.max_unit),
            (",\"step_size\":", terms.step_size),
        ] {
            self.push(name);
            self.number(value.into());
        }
        self.push(",\"allocation_ratio\":");
        self.float(terms.allocation_ratio);
        self.push("}");
    }
}
