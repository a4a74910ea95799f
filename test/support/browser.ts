// A browser without a screen: as much of one as the pages of `oauth-provider.ts` need. It signs in and consents to
// everything. As a command (`node browser.js URL`) it is what programs start to open a URL, and signs in as `$SIGN_IN_AS`.
import { pathToFileURL } from 'node:url'

/** Redirects and forms until the client gets its code; the provider needs seven. */
const maxPages = 12

export class Browser {
  #user: string
  #cookies = new Map<string, string>()

  constructor(user: string) {
    this.#user = user
  }

  /** Follows the provider's pages from `url` on; gives the client's redirect URI with the code, which is not fetched. */
  async signIn(url: URL): Promise<URL> {
    let at = url
    for (let page = 0; page < maxPages; page++) {
      if (at.searchParams.has('code')) return at
      const error = at.searchParams.get('error')
      if (error !== null) throw new Error(`${error}: ${at.searchParams.get('error_description')}`)
      const response = await this.#open(at)
      const next = response.headers.get('location')
      at = next === null ? await this.#submit(at, await response.text()) : new URL(next, at)
    }
    throw new Error(`no code after ${maxPages} pages`)
  }

  /** Fills in the form of the page, and gives where it leads. */
  async #submit(at: URL, page: string): Promise<URL> {
    const prompt = /name="prompt" value="(\w+)"/.exec(page)?.[1]
    if (prompt === undefined) throw new Error(`not a form: ${page}`)
    const body = new URLSearchParams({ prompt, login: this.#user, password: 'any' })
    const response = await this.#open(at, { method: 'POST', body })
    return new URL(response.headers.get('location') ?? '', at)
  }

  async #open(url: URL, init: RequestInit = {}): Promise<Response> {
    const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, { ...init, redirect: 'manual', headers: { cookie } })
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      this.#cookies.set(name, value)
    }
    return response
  }
}

const [, script, url] = process.argv
if (script !== undefined && url !== undefined && import.meta.url === pathToFileURL(script).href) {
  const redirected = await new Browser(process.env['SIGN_IN_AS'] ?? 'nobody').signIn(new URL(url))
  const response = await fetch(redirected)
  if (!response.ok) throw new Error(`the client responded with ${response.status}: ${await response.text()}`)
}
