// Debian's Chromium without a window, driven by playwright-core: one for the suites that a process runs one after another. The
// headless shell opens a page for a quarter of the CPU time that the whole browser takes, which makes a window for each.
// What a page must never do, such as a violation of its policy or an error in its script, fails the test.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core'

const program = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'].find(
  (name) => spawnSync(name, ['--version'], { stdio: 'ignore' }).status === 0,
)

/** Skips the tests of the suite if there is no Chromium, and says so; in CI they fail. */
function needsChromium(context: Mocha.Context): void {
  if (program !== undefined) return
  const message = 'tests of the console need Chromium, on Debian: apt-get install chromium-headless-shell'
  if (process.env['CI'] !== undefined) throw new Error(message)
  process.stderr.write(`skipped: ${message}\n`)
  context.skip()
}

export interface Chromium {
  /** A page in a context of its own, as of another person. */
  open(options?: BrowserContextOptions): Promise<Page>
  /** What pages did that they must not do, since the last call. */
  problems(): string[]
}

/** A browser takes seconds to start, so the next suite takes that of the last one, if it begins within this time. */
const idleMs = 10_000
let launched: Promise<Browser> | undefined
let closing: NodeJS.Timeout | undefined

function launch(): Promise<Browser> {
  const { stdout } = spawnSync('which', [program ?? 'chromium'], { encoding: 'utf8' })
  return chromium.launch({
    executablePath: stdout.trim(),
    // The tests may run as root, and with a small /dev/shm.
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  })
}

/** A browser for the tests of the calling suite, whose pages are closed after it. */
export function chromiumOfSuite(): Chromium {
  const contexts: BrowserContext[] = []
  let browser: Browser
  let problems: string[] = []
  before(async function () {
    needsChromium(this)
    clearTimeout(closing)
    const running = await launched?.catch(() => undefined)
    if (running?.isConnected() !== true) launched = launch()
    browser = await launched!
  })
  after(async () => {
    await Promise.all(contexts.map((context) => context.close()))
    closing = setTimeout(() => {
      launched = undefined
      void browser?.close()
    }, idleMs)
  })
  return {
    async open(options = {}) {
      const context = await browser.newContext({
        viewport: { width: 1280, height: 800 },
        locale: 'en-GB',
        timezoneId: 'Europe/Berlin',
        reducedMotion: 'reduce',
        ...options,
      })
      contexts.push(context)
      const page = await context.newPage()
      page.on('pageerror', (error) => problems.push(`error in the page: ${error.message}`))
      page.on('console', (message) => {
        const text = message.text()
        if (message.type() === 'error' && !text.startsWith('Failed to load resource')) problems.push(text)
      })
      // Pages of other origins, such as an issuer's, may ask for what they like, and do not get it.
      await context.route(
        ({ hostname, protocol }) =>
          !['data:', 'file:'].includes(protocol) && !['localhost', '127.0.0.1'].includes(hostname),
        (route) => {
          const asks = route.request().frame().url()
          if (asks.startsWith('http://localhost:'))
            problems.push(`request to another host: ${route.request().url()}`)
          return route.abort()
        },
      )
      return page
    },
    problems() {
      const found = problems
      problems = []
      return found
    },
  }
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface AxeViolation {
  readonly id: string
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[]
}

/** What axe-core finds against WCAG 2.2 A and AA, one line for each element. */
export async function accessibilityViolations(page: Page): Promise<string[]> {
  await page.evaluate(axeSource)
  const violations = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run(options: object): Promise<{ violations: AxeViolation[] }> }
    }
    const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
    return (await axe.run({ runOnly: { type: 'tag', values: tags } })).violations
  })
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary = '' }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
  )
}
