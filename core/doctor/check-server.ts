// Checks for `svc doctor` whether a server responds, and how far its clock is from this machine's.
import { HttpClient, type HttpResponse } from '../http/client.js'
import { messageOf } from '../json/message.js'
import type { DoctorCheck } from './check.js'
import { checkSkew, clockSkew } from './check-clock.js'

const timeoutMs = 5000
/** A `Date` header is in whole seconds (RFC 9110 §5.6.7). */
const resolutionMs = 1000

/**
 * Sends HEAD, which changes nothing. Every response counts, a redirect or a refusal too; it is not followed. A response
 * from 500 on is a warning. `subject` is how the messages call the server. The checks after the first are about its
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
