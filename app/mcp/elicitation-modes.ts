// The forms of elicitation that a client has declared: in `initialize`, or from 2026-07-28 on in each request.
import { isJsonObject } from '@svc/core/json'
import { EVENT_STREAM_TYPE, mediaType } from '../http/media-type.js'
import { isStatelessExchange, type McpExchange, revisionOf } from './exchange.js'
import { metaOf } from './meta.js'
import { META_CLIENT_CAPABILITIES } from './protocol.js'

export interface ElicitationModes {
  readonly form: boolean
  readonly url: boolean
}

export const noModes: ElicitationModes = { form: false, url: false }

/** The revisions that introduced the modes; requests without an `initialize` that declares them have neither. */
const formSince = '2025-06-18'
const urlSince = '2025-11-25'

/** The modes that capabilities declare: an empty `elicitation` stands for forms (2025-11-25, "Elicitation", "Capabilities"). */
export function declaredModes(capabilities: unknown, revision: string): ElicitationModes {
  const declared = isJsonObject(capabilities) ? capabilities['elicitation'] : undefined
  if (!isJsonObject(declared)) return noModes
  const form = isJsonObject(declared['form']) || declared['url'] === undefined
  return since(revision, { form, url: isJsonObject(declared['url']) })
}

function since(revision: string, { form, url }: ElicitationModes): ElicitationModes {
  return { form: form && revision >= formSince, url: url && revision >= urlSince }
}

/** The modes as a part of the id of a session: any gateway of a deployment reads them there. */
export function modesTag({ form, url }: ElicitationModes): string {
  return `${form ? 'f' : ''}${url ? 'u' : ''}`
}

/** How the person at the client can be asked during the request. */
export function modesOf(exchange: McpExchange): ElicitationModes {
  const { message, modes, sessionTag = '' } = exchange
  if (message?.type !== 'request') return noModes
  if (modes !== undefined) return modes
  const revision = revisionOf(exchange) ?? ''
  if (isStatelessExchange(exchange)) {
    return declaredModes(metaOf(message.params)[META_CLIENT_CAPABILITIES], revision)
  }
  // The gateway sends the request on the stream of the call.
  if (!takesEvents(exchange)) return noModes
  const [, tag = ''] = sessionTag.split('~')
  return since(revision, { form: tag.includes('f'), url: tag.includes('u') })
}

/** Whether a response to the client may be a stream. A client that sends lines has no `Accept`, and reads every message. */
export function takesEvents({
  headers,
  isHeaderless,
}: Pick<McpExchange, 'headers' | 'isHeaderless'>): boolean {
  return (
    isHeaderless === true || headers.accept?.split(',').map(mediaType).includes(EVENT_STREAM_TYPE) === true
  )
}
