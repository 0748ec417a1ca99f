//! Draws a curve as SVG.

use std::path::Path;

use plotters::prelude::*;

use crate::Result;

const SIZE: (u32, u32) = (640, 360);
const COLOURS: [RGBColor; 2] = [RGBColor(31, 90, 166), RGBColor(160, 160, 160)];

/// A figure over a size.
pub struct Curve {
    /// The file's name, without its ending.
    pub name: &'static str,
    pub title: &'static str,
    pub x: &'static str,
    pub y: &'static str,
    /// Lines with their names and points. Each has a point; an x is at least 1.
    pub lines: Vec<(&'static str, Vec<(f64, f64)>)>,
}

impl Curve {
    /// Writes `<name>.svg` in a folder. The axis of sizes is logarithmic.
    pub fn draw(&self, folder: &Path) -> Result<()> {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let least = points().map(|(x, _)| *x).fold(f64::MAX, f64::min);
        let most = points().map(|(x, _)| *x).fold(least, f64::max);
        let highest = points().map(|(_, y)| *y).fold(0.0, f64::max);
        let path = folder.join(self.name).with_extension("svg");
        let area = SVGBackend::new(&path, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d((least..most * 1.05).log_scale(), 0.0..highest * 1.15)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(self.x)
            .y_desc(self.y)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .draw()?;
        for ((name, points), colour) in self.lines.iter().zip(COLOURS) {
            let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
            chart.draw_series(line.point_size(3))?.label(*name).legend(move |(x, y)| {
                PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(2))
            });
        }
        if self.lines.len() > 1 {
            let labels = &mut chart.configure_series_labels();
            labels.position(SeriesLabelPosition::LowerRight).border_style(BLACK.mix(0.2)).draw()?;
        }
        Ok(area.present()?)
    }
}
