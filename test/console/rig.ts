// A real gateway whose console is open in a real browser.
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { BrowserContextOptions, Page } from 'playwright-core'
import type { GatewaySettings } from 'svc-sdk'
import { adminToken } from '../app/admin/rig.js'
import type { Chromium } from '../support/chromium.js'
import { startTestGateway, type TestGateway } from '../support/gateway.js'

const root = fileURLToPath(new URL('../../../', import.meta.url))

export interface ConsoleRig extends AsyncDisposable {
  readonly gateway: TestGateway
  /** `http://localhost:<port>`. */
  readonly origin: string
  /** A page of the console, signed in with the admin token. */
  page(path?: string, options?: BrowserContextOptions): Promise<Page>
}

/** Pages are opened in `browser`; their problems fail the test when the rig is disposed of. */
export async function startConsole(
  browser: Chromium,
  given: Partial<GatewaySettings> | ((home: string) => Partial<GatewaySettings>) = {},
): Promise<ConsoleRig> {
  bundleOnce()
  const defaults = {
    targets: { billing: 'http://127.0.0.1:1' },
    admin: { port: 0, tokenRef: 'env:SVC_ADMIN' },
  }
  const gateway = await startTestGateway((home) => {
    const settings = typeof given === 'function' ? given(home) : given
    const isWhole = settings.policyYaml !== undefined
    return { ...(isWhole ? {} : defaults), env: { SVC_ADMIN: adminToken }, ...settings }
  })
  const { adminUrl = '' } = await gateway.handle.ready()
  const origin = `http://localhost:${new URL(adminUrl).port}`
  return {
    gateway,
    origin,
    async page(path = '/console', options = {}) {
      const page = await browser.open({ baseURL: origin, ...options })
      await page.goto(path)
      await signIn(page)
      return page
    },
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      const problems = browser.problems()
      if (problems.length > 0) throw new Error(`in the browser: ${problems.join('; ')}`)
    },
  }
}

let isBundled = false

/** The script is bundled after `tsc -b`; tests also run without `npm run build`. */
export function bundleOnce(): void {
  if (isBundled) return
  const module = JSON.stringify(join(root, 'scripts/bundle-console.mjs'))
  execFileSync(process.execPath, ['-e', `import(${module}).then(({ bundleConsole }) => bundleConsole())`])
  isBundled = true
}

/** Types the admin token into the page that asks for it, and waits until the page behind it is alive. */
export async function signIn(page: Page, token = adminToken): Promise<void> {
  await page.locator('#app[data-ready]').waitFor()
  await page.getByLabel(/^(Admin token|Token)$/).fill(token)
  await page.getByRole('button', { name: 'Sign in with the token' }).click()
  await ready(page)
}

/** Waits until a page for those who are signed in goes on in the browser. */
export async function ready(page: Page): Promise<void> {
  await page.locator('#app[data-ready] .frame').waitFor()
}

/** The folder of the pictures, if the run makes them: `npm run docs:console`. */
const pictures = process.env['SVC_SCREENSHOTS']

/** The pictures of docs/console.md and README.md. */
const documented = [
  'approvals',
  'approvals-together',
  'call',
  'decided',
  'evidence',
  'live',
  'log',
  'overview',
  'passkey',
  'policy',
  'policy-shadow',
  'policy-switch',
  'servers',
  'verify',
  'verify-changed',
]

/**
 * A picture of what the page shows, in both schemes; only if the run makes pictures. For the documentation those that it has
 * are made. WebP takes half of the space of PNG.
 */
export async function screenshot(page: Page, name: string): Promise<void> {
  if (pictures === undefined || (pictures === 'docs/images' && !documented.includes(name))) return
  mkdirSync(join(root, pictures), { recursive: true })
  const devtools = await page.context().newCDPSession(page)
  for (const scheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme: scheme })
    const { data } = await devtools.send('Page.captureScreenshot', { format: 'webp', quality: 80 })
    writeFileSync(join(root, pictures, `console-${name}-${scheme}.webp`), Buffer.from(data, 'base64'))
  }
}
