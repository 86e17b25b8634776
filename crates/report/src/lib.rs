//! Static HTML pages and SVG charts, for the server, the profiler and the command line.
//!
//! [`html`] contains the frame of a page and its tables. [`chart`] writes the shapes of one SVG chart. [`line_chart`]
//! draws curves over steps with it, [`heat_map`] matrices, and [`error_bars`] means with their deviations. Pages run no
//! script and load no external resource, and every text is escaped.

mod axis;
pub mod chart;
pub mod error_bars;
pub mod heat_map;
pub mod html;
pub mod line_chart;
