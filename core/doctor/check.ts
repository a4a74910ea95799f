// The results of `svc doctor`: whether what a policy names can be opened, whether a server responds, and how far its clock is
// from that of this machine.
import { HttpClient, type HttpResponse } from '../http/client.js'
import { redirectInHost } from '../http/host.js'
import { messageOf } from '../json/message.js'

export interface DoctorCheck {
  readonly severity: 'ok' | 'warning' | 'error'
  readonly message: string
  /** How to fix it. */
  readonly hint?: string
}

/** Ok if `open` resolves, else an error with its reason, which must not contain a secret. */
export async function checkUsable(
  subject: string,
  hint: string,
  open: () => Promise<unknown>,
): Promise<DoctorCheck> {
  try {
    await open()
    return { severity: 'ok', message: `${subject} can be used` }
  } catch (error) {
    return { severity: 'error', message: `${subject} cannot be used: ${messageOf(error)}`, hint }
  }
}

const timeoutMs = 5000
/** A `Date` header is in whole seconds (RFC 9110 §5.6.7). */
const resolutionMs = 1000

/**
 * Sends HEAD, which changes nothing. Every response counts, a refusal too. A response from 500 on is a warning, and so is a
 * redirect within the host, which is not followed. `subject` is how the messages call the server. The checks after the first are about its
 * clock. With `public` a private address counts as unreachable.
 */
export async function checkServer(
  subject: string,
  url: string,
  addresses: 'any' | 'public' = 'any',
): Promise<readonly [DoctorCheck, ...DoctorCheck[]]> {
  const { origin, pathname } = new URL(url)
  const place = `${subject} at ${origin}${pathname}`
  const sentAt = Date.now()
  const client = new HttpClient({ addresses })
  let response: HttpResponse
  try {
    response = await client.send(url, { method: 'HEAD', timeoutMs, maxBytes: 0 })
  } catch (error) {
    const message = `${place} cannot be reached: ${messageOf(error)}`
    const hint = 'check the address, and name resolution, firewall, proxy and certificate on the way to it'
    return [{ severity: 'error', message, hint }]
  } finally {
    await client.close()
  }
  const clock = clockCheck(subject, response.headers.date, sentAt, Date.now())
  if (response.status >= 500) {
    const message = `${place} responds with ${response.status}`
    return [{ severity: 'warning', message, hint: 'see the log of that server' }, ...clock]
  }
  const address = redirectInHost(new URL(url), response)
  if (address !== undefined) {
    const message = `${place} redirects to ${address}, and redirects are not followed`
    return [{ severity: 'warning', message, hint: 'write that address in the policy' }, ...clock]
  }
  return [{ severity: 'ok', message: `${place} responds` }, ...clock]
}

function clockCheck(
  subject: string,
  date: string | undefined,
  sentAt: number,
  receivedAt: number,
): DoctorCheck[] {
  const theirs = Date.parse(date ?? '')
  if (Number.isNaN(theirs)) return []
  return checkSkew(subject, clockSkew({ from: theirs, to: theirs + resolutionMs }, sentAt, receivedAt))
}

/** Tokens and certificates tolerate a few seconds. */
const maxSkewMs = 3000

/** The time of a server by its response, in milliseconds since the epoch: at least `from`, before `to`. */
interface ServerTime {
  readonly from: number
  readonly to: number
}

/** By how much this clock is ahead of that of a server at least, in milliseconds; negative if it is behind. */
export function clockSkew(server: ServerTime, askedAt: number, respondedAt: number): number {
  const aheadMs = askedAt - server.to
  const behindMs = server.from - respondedAt
  if (aheadMs > 0) return aheadMs
  return behindMs > 0 ? -behindMs : 0
}

/** `subject` is how the message calls the server. */
export function describeSkew(subject: string, skewMs: number): string {
  const side = skewMs < 0 ? 'behind' : 'ahead of'
  return `the clock of this machine is ${Math.round(Math.abs(skewMs) / 1000)} s ${side} that of ${subject}`
}

/** The check for `svc doctor`; nothing if the clocks agree. */
export function checkSkew(subject: string, skewMs: number): DoctorCheck[] {
  if (Math.abs(skewMs) <= maxSkewMs) return []
  const hint = 'synchronise both clocks, by NTP for example'
  return [{ severity: 'warning', message: describeSkew(subject, skewMs), hint }]
}
