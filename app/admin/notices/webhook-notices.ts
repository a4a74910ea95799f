// Delivers notices to webhooks in the background: queued on disk, signed, retried with growing pauses.
import { randomBytes } from 'node:crypto'
import type { Clock, Logger, Meter, Notice, Notices, Signer } from '@svc/core'
import { isLoopbackHost, retryAfterMs } from '@svc/core/http'
import { HttpClient, type HttpResponse } from '@svc/core/http-client'
import { messageOf } from '@svc/core/json'
import type { KeyReader } from '@svc/core/secret'
import type { NoticesConfig } from './config.js'
import { NoticeQueue, type QueuedNotice } from './queue.js'
import { readSecret, signedHeaders } from './signature.js'
import { noticeText } from './text.js'

/** The recommended schedule of Standard Webhooks, in milliseconds; the last one repeats until `maxAgeMs`. */
const retryDelaysMs: readonly number[] = [5_000, 30_000, 120_000, 600_000, 1_800_000, 3_600_000, 18_000_000]
const maxAgeMs = 3 * 24 * 3_600_000
const maxPending = 1_000
const timeoutMs = 15_000

type Destination = NoticesConfig[number]

interface WebhookNoticesOptions {
  /** The directory of the queue. */
  readonly directory: string
  readonly clock: Clock
  readonly logger: Logger
  readonly meter: Meter
  /** The log's signer, if there is one. */
  readonly signer: () => Signer | undefined
  readonly retryDelaysMs?: readonly number[]
}

interface PendingNotice extends QueuedNotice {
  attempts: number
  /** The timer of the next attempt. */
  timer?: NodeJS.Timeout
}

export class WebhookNotices implements Notices {
  #options: WebhookNoticesOptions
  #queue: NoticeQueue
  #client = new WebhookClient()
  #destinations: readonly Destination[] = []
  #keys: KeyReader | undefined
  #pending = new Map<string, PendingNotice>()
  #running = new Set<Promise<void>>()
  #closing = new AbortController()
  #isLoaded = false

  constructor(options: WebhookNoticesOptions) {
    this.#options = options
    this.#queue = new NoticeQueue(options.directory)
  }

  /** Puts the destinations of a policy in force; the first time, delivers what an earlier process left. */
  use(destinations: readonly Destination[], keys: KeyReader): void {
    this.#destinations = destinations
    this.#keys = keys
    // Those whose destination is gone would only wait for their next attempt.
    for (const { id, url, subscribed, timer } of this.#pending.values()) {
      if (!subscribed || destinations.some((one) => one.url === url)) continue
      clearTimeout(timer)
      this.#run(() => this.#end(id))
    }
    if (this.#isLoaded) return
    this.#isLoaded = true
    this.#run(async () => {
      for (const queued of await this.#queue.load()) this.#begin({ ...queued, attempts: 0 })
    })
  }

  send({ type, data }: Notice, url?: string): void {
    const subscribed = this.#destinations.filter(({ events }) => events.includes(type))
    const urls = new Set(subscribed.map((destination) => destination.url))
    if (url !== undefined) urls.add(url)
    for (const each of urls) {
      if (this.#pending.size >= maxPending || this.#closing.signal.aborted) {
        this.#drop('the queue of notices is full', { type, url: each })
        continue
      }
      const at = this.#options.clock.now()
      const isText = subscribed.find((one) => one.url === each)?.format === 'text'
      const body = JSON.stringify(
        isText ? { text: noticeText({ type, data }) } : { type, timestamp: new Date(at).toISOString(), data },
      )
      const id = `msg_${randomBytes(16).toString('hex')}`
      const notice = {
        id,
        url: each,
        subscribed: subscribed.some((one) => one.url === each),
        at,
        body,
        attempts: 0,
      }
      this.#track(notice)
      this.#run(async () => {
        await this.#keep(notice)
        await this.#attempt(notice)
      })
    }
  }

  /** Ends attempts; what was not delivered stays in the queue. */
  async close(): Promise<void> {
    this.#closing.abort()
    for (const { timer } of this.#pending.values()) clearTimeout(timer)
    await this.idle()
    await this.#client.close()
  }

  /** Resolves when no attempt is running. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }

  /** Runs in the background; an error is logged, as nobody awaits it. */
  #run(work: () => Promise<void>): void {
    const running = work()
      .catch((err: unknown) => this.#options.logger.error({ err }, 'the queue of notices does not work'))
      .finally(() => this.#running.delete(running))
    this.#running.add(running)
  }

  /** A notice that cannot be kept on disk is delivered from memory. */
  async #keep({ id, url, subscribed, at, body }: QueuedNotice): Promise<void> {
    try {
      await this.#queue.add({ id, url, subscribed, at, body })
    } catch (err) {
      this.#options.logger.error({ err }, 'a notice cannot be kept on disk')
    }
  }

  #begin(notice: PendingNotice): void {
    this.#track(notice)
    this.#run(() => this.#attempt(notice))
  }

  async #attempt(notice: PendingNotice): Promise<void> {
    const { id, url, at } = notice
    if (this.#closing.signal.aborted) return
    const destination = this.#destinations.find((each) => each.url === url)
    if (notice.subscribed && destination === undefined) return this.#end(id)
    const failure = await this.#post(notice, destination)
    if (failure === undefined) {
      this.#options.meter.count('svc_notices_delivered_total')
      return this.#end(id)
    }
    if (this.#closing.signal.aborted) return
    this.#options.meter.count('svc_notices_failed_total')
    const { error, status, retryAfterMs: afterMs = 0 } = failure
    if (status === GONE) {
      this.#drop('a webhook is gone', { url, error })
      return this.#end(id)
    }
    if (this.#options.clock.now() - at > maxAgeMs) {
      this.#drop('a notice was not delivered in three days', { url, error })
      return this.#end(id)
    }
    if (notice.attempts === 0)
      this.#options.logger.warn({ url: originOf(url), error }, 'a notice is delivered later')
    const delays = this.#options.retryDelaysMs ?? retryDelaysMs
    const delay = delays[Math.min(notice.attempts++, delays.length - 1)] ?? 0
    const waitMs = Math.max(addJitter(delay), Math.min(afterMs, maxAgeMs))
    notice.timer = setTimeout(() => this.#run(() => this.#attempt(notice)), waitMs)
    notice.timer.unref()
  }

  /** Undefined if the webhook accepted the notice. */
  async #post(
    { id, url, body }: PendingNotice,
    destination: Destination | undefined,
  ): Promise<DeliveryFailure | undefined> {
    const { clock, signer } = this.#options
    try {
      const secret = await this.#secretOf(destination)
      const timestamp = Math.floor(clock.now() / 1000)
      const headers = await signedHeaders({ id, timestamp, body }, { secret, signer: signer() })
      const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(timeoutMs)])
      const { status, headers: given } = await this.#client.post(url, destination?.allowPrivate ?? false, {
        headers,
        body,
        signal,
      })
      if (status >= 200 && status < 300) return undefined
      return {
        error: `status ${status}`,
        status,
        retryAfterMs: retryAfterMs(given['retry-after'], clock.now()),
      }
    } catch (error) {
      return { error: messageOf(error) }
    }
  }

  async #secretOf(destination: Destination | undefined): Promise<Buffer | undefined> {
    if (destination?.secretRef === undefined || this.#keys === undefined) return undefined
    return readSecret(await this.#keys.read(destination.secretRef))
  }

  #track(notice: PendingNotice): void {
    this.#pending.set(notice.id, notice)
    this.#gauge()
  }

  async #end(id: string): Promise<void> {
    this.#pending.delete(id)
    this.#gauge()
    await this.#queue.remove(id)
  }

  #gauge(): void {
    this.#options.meter.gauge?.('svc_notices_pending', this.#pending.size)
  }

  #drop(why: string, { url, ...fields }: { url: string; [field: string]: string }): void {
    this.#options.meter.count('svc_notices_dropped_total')
    this.#options.logger.error({ url: originOf(url), ...fields }, why)
  }
}

/** The receiver wants no more of the notice (RFC 9110 §15.5.11). */
const GONE = 410

/** Why a webhook did not accept a notice, and how long it wants to be left alone. */
interface DeliveryFailure {
  readonly error: string
  readonly status?: number
  readonly retryAfterMs?: number | undefined
}

/** A path or query may hold a secret. */
function originOf(url: string): string {
  return new URL(url).origin
}

/** Half of the delay is random, so that gateways do not retry together. */
function addJitter(delay: number): number {
  return delay / 2 + (Math.random() * delay) / 2
}

const limits = { connections: 4, connectTimeoutMs: 5_000, keepAlive: true }
/** Limit for the body of a response, which is not used. */
const maxBytes = 64 * 1024

/** Refuses a name with a private address unless the policy allows it. */
class WebhookClient {
  #public = new HttpClient({ ...limits, addresses: 'public' })
  #any = new HttpClient(limits)

  /** Rejects if there is no response. */
  async post(
    url: string,
    allowPrivate: boolean,
    { headers, body, signal }: { headers: Record<string, string>; body: string; signal: AbortSignal },
  ): Promise<HttpResponse> {
    const client = allowPrivate || isLoopbackHost(new URL(url).hostname) ? this.#any : this.#public
    const sent = { 'content-type': 'application/json', ...headers }
    return client.send(url, { headers: sent, body, signal, maxBytes })
  }

  async close(): Promise<void> {
    await Promise.all([this.#public.close(), this.#any.close()])
  }
}
