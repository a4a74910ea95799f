// Posts to webhooks. A name with a private address is refused unless the policy allows it.
import { isLoopbackHost } from '@svc/core/http'
import { HttpClient } from '@svc/core/http-client'

const limits = { connections: 4, connectTimeoutMs: 5_000, keepAlive: true }
/** Nobody reads the body of a response. */
const maxBytes = 64 * 1024

export class WebhookClient {
  #public = new HttpClient({ ...limits, addresses: 'public' })
  #any = new HttpClient(limits)

  /** The status of the response. Rejects where there is none. */
  async post(
    url: string,
    allowPrivate: boolean,
    { headers, body, signal }: { headers: Record<string, string>; body: string; signal: AbortSignal },
  ): Promise<number> {
    const client = allowPrivate || isLoopbackHost(new URL(url).hostname) ? this.#any : this.#public
    const sent = { 'content-type': 'application/json', ...headers }
    return (await client.send(url, { headers: sent, body, signal, maxBytes })).status
  }

  async close(): Promise<void> {
    await Promise.all([this.#public.close(), this.#any.close()])
  }
}
