/*
 * The operator's page: what /overview answers, drawn anew every 10 s while the page is seen. The browser runs this
 * file as it is.
 */

/** @typedef {import('uplot')} UPlot */
/** @typedef {{ at: number[], columns: Record<string, (number | null)[]> }} Series */
/** @typedef {{ severity: 'look' | 'act', what: string, since: number | null, why: string | null, command: string }} Finding */
/**
 * @typedef {{
 *   at: number, verdict: 'fine' | 'look' | 'act', sentence: string, findings: Finding[], version: string,
 *   commit: string, span: string, span_seconds: number, series: Series | null,
 * }} Overview
 */
/**
 * What a chart shows: each column of `names`, or each whose name begins with `prefix`, as its own line.
 *
 * @typedef {{
 *   title: string, unit: (value: number) => string, lines: (series: Series) => Line[], scale?: number,
 * }} Chart
 * @typedef {{ label: string, values: (number | null)[] }} Line
 */

const DRAW_EVERY_MS = 10_000
const CHART_HEIGHT = 150
/** As far apart as hues can be for eyes that tell red from green badly, on a light and on a dark ground. */
const COLOURS = {
  light: ['#0b6bcb', '#d1600a', '#7a3fc0', '#00806b', '#b3246b', '#6b6f00', '#5b6470'],
  dark: ['#6ab0f3', '#f2994a', '#b99af5', '#3fc7ad', '#f285b8', '#cfd04a', '#9aa4b1'],
}

/** @param {string} id */
function element(id) {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no #${id}`)
  return found
}

/**
 * Makes an element with a text, which is never read as HTML.
 *
 * @param {string} tag
 * @param {string} text
 * @param {string} [className]
 */
function make(tag, text, className) {
  const made = document.createElement(tag)
  made.textContent = text
  if (className !== undefined) made.className = className
  return made
}

/** @param {number} value */
const plain = (value) => value.toLocaleString('en', { maximumSignificantDigits: value < 100 ? 2 : 4 })
/** @param {number} value milliseconds */
const milliseconds = (value) => (value < 1_000 ? `${plain(value)} ms` : `${plain(value / 1_000)} s`)
/** @param {number} value */
const gigabytes = (value) =>
  value === 0 ? '0' : value < 1e9 ? `${plain(value / 1e6)} MB` : `${plain(value / 1e9)} GB`
/** Between the marks of an axis, in seconds. */
const DURATION_STEPS = [
  1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800, 604_800,
]
/** @param {number} value seconds */
function duration(value) {
  if (value < 120) return `${Math.round(value)} s`
  if (value < 7_200) return `${Math.round(value / 60)} min`
  return value < 172_800 ? `${Math.round(value / 3_600)} h` : `${Math.round(value / 86_400)} d`
}

/**
 * @param {Record<string, string>} labels by the name of the column
 * @returns {(series: Series) => Line[]}
 */
const named = (labels) => (series) =>
  Object.entries(labels).flatMap(([name, label]) => {
    const values = series.columns[name]
    return values === undefined ? [] : [{ label, values }]
  })

/**
 * A line for each column whose name begins so; the rest of the name is its label.
 *
 * @param {string} prefix
 * @returns {(series: Series) => Line[]}
 */
const each = (prefix) => (series) =>
  Object.entries(series.columns)
    .filter(([name]) => name.startsWith(prefix))
    .map(([name, values]) => ({ label: name.slice(prefix.length), values }))

/** @type {Chart[]} */
const CHARTS = [
  {
    title: 'Requests a second',
    unit: plain,
    lines: named({ requests_per_second: 'requests', failures_per_second: 'answered 5xx' }),
  },
  { title: 'Time to answer', unit: milliseconds, lines: named({ p99_ms: 'p99', p50_ms: 'p50' }) },
  { title: 'Jobs that wait, by pool', unit: plain, lines: each('waiting/') },
  { title: 'The oldest job that waits, by pool', unit: duration, lines: each('oldest_seconds/') },
  {
    title: 'Batches of shares verified a second',
    unit: plain,
    lines: named({ 'jobs_per_second/verify-shares': 'batches' }),
  },
  {
    title: 'Seals',
    unit: duration,
    lines: named({ seal_age_seconds: 'age of the last', unsealed_seconds: 'oldest entry without one' }),
  },
  { title: 'Ledger entries a second', unit: plain, lines: named({ entries_per_second: 'entries' }) },
  { title: 'Callers that wait for news', unit: plain, lines: named({ waiting_callers: 'callers' }) },
  { title: 'Processor, in cores', unit: plain, lines: each('cores/') },
  {
    title: 'Disk',
    unit: gigabytes,
    lines: named({ disk_free_bytes: 'free', disk_mark_bytes: 'no writes below' }),
  },
  { title: 'Database', unit: gigabytes, lines: named({ database_bytes: 'on disk' }) },
  { title: 'Redis', unit: gigabytes, lines: named({ redis_used_bytes: 'used' }) },
]

/**
 * A chart for each coin that has a treasury, or in which somebody is owed something.
 *
 * @param {Series} series
 * @returns {Chart[]}
 */
function chartsOfCoins(series) {
  const coins = Object.keys(series.columns)
    .filter((name) => name.startsWith('unpaid/'))
    .map((name) => name.slice('unpaid/'.length))
  return coins
    .filter(
      (coin) =>
        series.columns[`treasury/${coin}`] !== undefined ||
        series.columns[`unpaid/${coin}`]?.some((value) => (value ?? 0) > 0) === true,
    )
    .map((coin) => ({
      title: `Money, in ${coin.toUpperCase()}`,
      unit: plain,
      lines: named({ [`unpaid/${coin}`]: 'due', [`treasury/${coin}`]: 'treasury' }),
    }))
}

const isDark = matchMedia('(prefers-color-scheme: dark)')
/** @type {'hour' | 'day'} */
let span = 'hour'
/** @type {Overview | undefined} */
let shown
/** @type {{ plot: UPlot, card: HTMLElement }[]} */
let plots = []
/** Which charts with which lines `plots` are, and in which colours. */
let drawnForm = ''
/** Unix seconds. @type {[number, number]} */
let timeShown = [0, 1]

/** @param {Overview} overview */
function drawVerdict({ verdict, sentence, findings, at, version, commit }) {
  const line = element('verdict')
  line.textContent = sentence
  line.className = `verdict ${verdict}`
  document.title = `${verdict.toUpperCase()} · Agent network`
  element('findings').replaceChildren(
    ...findings.map(({ severity, what, since, why, command }) => {
      const item = make('li', '', severity)
      const head = make('div', '')
      head.className = severity
      head.append(make('b', `${severity.toUpperCase()} `), `${what}.`)
      const details = [since === null ? '' : `for ${duration(at - since)}`, why ?? ''].filter(
        (text) => text !== '',
      )
      item.append(head)
      if (details.length > 0) item.append(make('small', details.join('; ')))
      item.append(make('code', command))
      return item
    }),
  )
  element('footer').textContent =
    `Seen ${new Date(at * 1_000).toLocaleTimeString()}; version ${version}, commit ${commit.slice(0, 12)}.`
}

/** @param {string} name of a custom property of the style sheet, as the present colour scheme has it */
function colour(name) {
  const probe = document.createElement('i')
  probe.style.color = `var(${name})`
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

/**
 * @param {Line[]} lines
 * @param {Chart} chart
 * @param {number} width
 */
function optionsOf(lines, { unit }, width) {
  const colours = isDark.matches ? COLOURS.dark : COLOURS.light
  const soft = colour('--soft')
  const grid = { stroke: colour('--grid'), width: 1 }
  const axis = { stroke: soft, grid, ticks: grid, font: '11px system-ui, sans-serif' }
  return {
    width,
    height: CHART_HEIGHT,
    cursor: { y: false, points: { size: 6 } },
    hooks: { ready: [showLast], setCursor: [showLast] },
    scales: {
      x: { range: () => timeShown },
      y: {
        /** @returns {[number, number]} */
        range: (/** @type {UPlot} */ _, /** @type {number} */ _low, /** @type {number} */ high) => [
          0,
          high > 0 ? high * 1.1 : 1,
        ],
      },
    },
    axes: [
      { ...axis, values: '{HH}:{mm}', space: 60, size: 28 },
      {
        ...axis,
        ...(unit === duration ? { incrs: DURATION_STEPS } : {}),
        size: 62,
        space: 34,
        values: (/** @type {UPlot} */ _, /** @type {number[]} */ ticks) => ticks.map((tick) => unit(tick)),
      },
    ],
    series: [
      { value: '{HH}:{mm}:{ss}', label: 'at' },
      ...lines.map(({ label }, index) => ({
        label,
        stroke: colours[index % colours.length] ?? soft,
        width: 1.5,
        points: { show: false },
        value: (/** @type {UPlot} */ _, /** @type {number | null} */ value) =>
          value === null ? '–' : unit(value),
      })),
    ],
  }
}

/**
 * Shows the last values below a chart, unless the pointer is at others.
 *
 * @param {UPlot} plot
 */
function showLast(plot) {
  if ((plot.cursor.idx ?? -1) >= 0) return
  const [, ...lines] = plot.data
  const idx = lines[0]?.findLastIndex((value) => (value ?? null) !== null) ?? -1
  if (idx >= 0) plot.setLegend({ idx }, false)
}

/** @param {Overview} overview */
function drawCharts({ series, at, span_seconds: spanSeconds }) {
  timeShown = [at - spanSeconds, at]
  const charts = series === null ? [] : [...CHARTS, ...chartsOfCoins(series)]
  const drawings = series === null ? [] : charts.map((chart) => ({ chart, lines: chart.lines(series) }))
  const form = JSON.stringify([
    isDark.matches,
    series?.at.length === 0,
    drawings.map(({ chart, lines }) => [chart.title, lines.map(({ label }) => label)]),
  ])
  // The charts that are there get the new values, so that what the pointer is at stays.
  if (form === drawnForm && series !== null) {
    const filled = drawings.filter(({ lines }) => lines.length > 0)
    for (const [index, { plot }] of plots.entries())
      plot.setData([series.at, ...(filled[index]?.lines ?? []).map(({ values }) => values)])
    for (const { plot } of plots) showLast(plot)
    return
  }
  drawnForm = form
  for (const { plot } of plots) plot.destroy()
  plots = []
  const place = element('charts')
  if (series === null || series.at.length === 0) {
    place.replaceChildren(
      make(
        'p',
        series === null ? 'MongoDB gives no samples.' : 'The first sample comes within 20 seconds.',
        'empty',
      ),
    )
    return
  }
  const cards = drawings.map(({ chart, lines }) => {
    const card = make('article', '', 'chart')
    card.append(make('h2', chart.title))
    return { chart, lines, card }
  })
  place.replaceChildren(...cards.map(({ card }) => card))
  // Once they are in the page, they have their widths.
  for (const { chart, lines, card } of cards) {
    if (lines.length === 0) {
      card.append(make('p', 'Nothing yet.', 'empty'))
      continue
    }
    const options = optionsOf(lines, chart, card.clientWidth - 24)
    const plot = new uPlot(options, [series.at, ...lines.map(({ values }) => values)], card)
    plots.push({ plot, card })
  }
}

/** Asks for what is new, and draws it; says so if there is no answer. */
async function draw() {
  const stale = element('stale')
  try {
    const answer = await fetch(`/overview?span=${span}`, { headers: { Accept: 'application/json' } })
    if (!answer.ok) throw new Error(`the answer was ${answer.status}`)
    shown = /** @type {Overview} */ (await answer.json())
    stale.hidden = true
    drawVerdict(shown)
    drawCharts(shown)
  } catch (error) {
    stale.hidden = false
    stale.textContent = `This page could not be renewed: ${error instanceof Error ? error.message : String(error)}. What is below is old.`
  }
}

for (const button of document.querySelectorAll('[data-span]'))
  button.addEventListener('click', () => {
    span = button.getAttribute('data-span') === 'day' ? 'day' : 'hour'
    for (const one of document.querySelectorAll('[data-span]'))
      one.setAttribute('aria-pressed', String(one === button))
    void draw()
  })
element('show').addEventListener('submit', (event) => {
  event.preventDefault()
  const word = document.querySelector('input')?.value.trim() ?? ''
  if (word !== '') location.assign(`/show/${encodeURIComponent(word)}`)
})
isDark.addEventListener('change', () => shown && drawCharts(shown))
addEventListener('resize', () => {
  for (const { plot, card } of plots) plot.setSize({ width: card.clientWidth - 24, height: CHART_HEIGHT })
})
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) void draw()
})
setInterval(() => {
  if (!document.hidden) void draw()
}, DRAW_EVERY_MS)
void draw()
