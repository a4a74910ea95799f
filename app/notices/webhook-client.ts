// Posts to webhooks. Redirects are not followed, and a name with a private address is refused unless the policy allows it.
import type { LookupFunction } from 'node:net'
import { isLoopbackHost, publicLookup } from '@svc/core/http'
import { Agent } from 'undici'

const connectTimeoutMs = 5_000
const connections = 4
/** Of an answer, which nobody reads. */
const maxAnswerBytes = 64 * 1024

export class WebhookClient {
  #public = agent({ lookup: publicLookup })
  #any = agent({})

  /** The status of the answer. Rejects where there is none. */
  async post(
    url: string,
    allowPrivate: boolean,
    { headers, body, signal }: { headers: Record<string, string>; body: string; signal: AbortSignal },
  ): Promise<number> {
    const { origin, pathname, search, hostname } = new URL(url)
    const dispatcher = allowPrivate || isLoopbackHost(hostname) ? this.#any : this.#public
    const answer = await dispatcher.request({
      origin,
      path: `${pathname}${search}`,
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
      signal,
    })
    await answer.body.dump({ limit: maxAnswerBytes, signal })
    return answer.statusCode
  }

  async close(): Promise<void> {
    await Promise.all([this.#public.destroy(), this.#any.destroy()])
  }
}

function agent(connect: { readonly lookup?: LookupFunction }): Agent {
  return new Agent({ connections, connect: { timeout: connectTimeoutMs, ...connect } })
}
