// The forms of elicitation that a client has declared: in `initialize`, or from 2026-07-28 on in each request.
import type { ClientForms } from '@svc/core'
import { isJsonObject } from '@svc/core/json'

export type Confirmation = NonNullable<ClientForms['reply']>

/** The person's responses, for the gateway that repeats the call or gets it again from the client. */
export interface ElicitationResponse {
  /** The escalation of the call, whose approval is used and no other. */
  readonly escalationId?: string
  /** Whether the person agreed to open its page, which is not an approval. */
  readonly opened?: boolean
  readonly confirmation?: Confirmation
}

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

export function since(revision: string, { form, url }: ElicitationModes): ElicitationModes {
  return { form: form && revision >= formSince, url: url && revision >= urlSince }
}

/** The modes as a part of the id of a session: any gateway of a deployment reads them there. */
export function modesTag({ form, url }: ElicitationModes): string {
  return `${form ? 'f' : ''}${url ? 'u' : ''}`
}
