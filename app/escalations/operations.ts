// The operations of the admin API on escalations.

import { denied, isRefusal, type Refusal, resolveOptional } from '@svc/core'
import { defined } from '@svc/core/json'
import { escalationService, type GivenVote } from '@svc/plugin-enforcement'
import { z } from 'zod'
import { type Operation, type OperationRequest, operation, PlainResponse } from '../admin/operation.js'
import { idForm } from '../http/request-errors.js'
import {
  base64url,
  type CallerView,
  callerView,
  callerViewSchema,
  escalationListSchema,
  escalationQuery,
  escalationSchema,
  nonceSchema,
} from './escalation-json.js'
import { notFound, ReviewerEscalations, type VoteResult, withStoreRefusal } from './reviewer-escalations.js'

/** UTF-16 units. */
const maxComment = 1000

const given = {
  vote: z.enum(['approve', 'reject'], { error: 'expected approve or reject' }),
  comment: z.string().max(maxComment, `expected at most ${maxComment} characters`).optional(),
}
const input_sha256 = z.string().optional()

const challengeSchema = z.strictObject({ ...given, input_sha256 })

const maxVotes = 50

const passkey = z
  .strictObject({
    nonce: nonceSchema,
    credential_id: base64url,
    authenticator_data: base64url,
    client_data_json: base64url,
    signature: base64url,
    batch: z.array(base64url).min(1).max(maxVotes).optional(),
  })
  .optional()
  .describe('The response of the authenticator to the challenge.')

const voteSchema = z.strictObject({ ...given, input_sha256, passkey })

const severalSchema = z.strictObject({
  ...given,
  escalations: z
    .array(z.strictObject({ id: z.string().regex(idForm, 'expected an id'), input_sha256 }))
    .min(1)
    .max(maxVotes, `expected at most ${maxVotes}`)
    .refine((all) => new Set(all.map(({ id }) => id)).size === all.length, 'expected each id once')
    .describe('Each with the hash of the input that is approved.'),
})

const votesSchema = severalSchema.extend({ passkey })

const voteChallengeSchema = z.object({
  challenge: z.string().describe('Base64url.'),
  nonce: z.string(),
  rp_id: z.string(),
  credentials: z.array(z.string()).readonly(),
  batch: z
    .array(z.string())
    .readonly()
    .optional()
    .describe('The challenge of each vote, if there are several.'),
})

const voteResultSchema = z.object({
  id: z.string(),
  escalation: escalationSchema.optional().describe('The escalation with the vote.'),
  refused: z
    .object({ error: z.string(), message: z.string(), denial_reason: z.string().optional() })
    .optional()
    .describe('Why this vote was not cast; the others were.'),
})

export type VoteResultJson = z.output<typeof voteResultSchema>

export const escalationOperations: readonly Operation[] = [
  operation({
    method: 'GET',
    path: '/api/escalations',
    name: 'list_escalations',
    summary: 'Lists escalations, the newest or the oldest first.',
    access: 'reader',
    query: escalationQuery,
    response: escalationListSchema,
    run: async (request) =>
      (await escalationsOf(request)?.list(request.query)) ?? { escalations: [], more: false },
  }),
  operation({
    method: 'GET',
    path: '/api/escalations/:id',
    name: 'show_escalation',
    idOf: 'escalation',
    summary: 'Returns one escalation.',
    access: 'reader',
    response: escalationSchema,
    run: (request) => requireEscalations(request).show(request.id ?? ''),
  }),
  operation({
    method: 'GET',
    path: '/api/escalations/:id/input',
    name: 'read_input',
    idOf: 'escalation',
    summary: 'Returns the whole input of the call in canonical JSON, with its SHA-256 in hex as ETag.',
    access: 'reader',
    response: z.unknown(),
    async run(request) {
      const { text, sha256 } = await requireEscalations(request).input(request.id ?? '')
      const headers = { 'content-type': 'application/json', etag: `"${sha256}"` }
      return new PlainResponse({ status: 200, headers, body: text })
    },
  }),
  operation({
    method: 'GET',
    path: '/api/escalations/:id/state',
    name: 'show_state',
    idOf: 'escalation',
    summary:
      'Returns the state of an escalation to the caller whose call opened it; to others it does not exist.',
    access: 'signed-in',
    response: callerViewSchema,
    async run({ client, policy, id = '' }): Promise<CallerView> {
      const service = resolveOptional(policy.container, escalationService)
      const [standing, found] = await withStoreRefusal(() =>
        Promise.all([service?.standing(id, client), service?.find(id)]),
      )
      if (found === undefined || standing?.isCaller !== true) throw notFound()
      return callerView(found)
    },
  }),
  operation({
    method: 'POST',
    path: '/api/escalations/:id/votes',
    name: 'vote',
    idOf: 'escalation',
    summary: 'Casts a vote, and returns the escalation with it.',
    access: 'reader',
    isUnrecorded: true,
    body: voteSchema,
    response: escalationSchema,
    run: (request) => requireEscalations(request).vote(request.id ?? '', voteOf(request.body)),
  }),
  operation({
    method: 'POST',
    path: '/api/escalations/:id/challenge',
    name: 'challenge_vote',
    idOf: 'escalation',
    summary: 'Returns what the passkey of the client has to sign for this vote.',
    access: 'reader',
    isUnrecorded: true,
    body: challengeSchema,
    response: voteChallengeSchema,
    run: (request) =>
      requireEscalations(request).challenge([{ id: request.id ?? '', ...voteOf(request.body) }]),
  }),
  operation({
    method: 'POST',
    path: '/api/escalations/challenge',
    name: 'challenge_votes',
    summary:
      'Returns what the passkey of the client has to sign once for the same vote on several escalations.',
    access: 'reader',
    isUnrecorded: true,
    body: severalSchema,
    response: voteChallengeSchema,
    run: (request) => requireEscalations(request).challenge(votesOf(request.body)),
  }),
  operation({
    method: 'POST',
    path: '/api/escalations/votes',
    name: 'vote_on_several',
    idOf: 'escalation',
    summary: 'Casts the same vote on several escalations, one by one, and returns the result of each.',
    access: 'reader',
    isUnrecorded: true,
    body: votesSchema,
    response: z.object({ results: z.array(voteResultSchema) }),
    async run(request) {
      const results = await requireEscalations(request).voteOnEach(votesOf(request.body))
      return { results: (await recorded(results, request)).map(resultJson) }
    },
  }),
]

/** The escalations that the client may see; undefined if the policy in force escalates nothing. */
export function escalationsOf({
  client,
  authorizer,
  policy,
}: Pick<OperationRequest, 'client' | 'authorizer' | 'policy'>): ReviewerEscalations | undefined {
  const service = resolveOptional(policy.container, escalationService)
  return service && new ReviewerEscalations(service, authorizer, client)
}

/** Throws `Refusal` (`TARGET_NOT_FOUND`) if the policy in force escalates nothing. */
export function requireEscalations(
  request: Pick<OperationRequest, 'client' | 'authorizer' | 'policy'>,
): ReviewerEscalations {
  const found = escalationsOf(request)
  if (found === undefined) throw notFound()
  return found
}

/**
 * Records the refusals among the results. If one cannot be recorded, it and later refusals are left out of the response;
 * counted votes are in it.
 */
async function recorded(
  results: readonly VoteResult[],
  request: Pick<OperationRequest, 'recordRefusal'>,
): Promise<readonly VoteResult[]> {
  const told: VoteResult[] = []
  let failure: Refusal | undefined
  for (const result of results) {
    if ('refused' in result)
      failure ??= await failureOf(request.recordRefusal(result.id, result.refused.code))
    if ('escalation' in result || failure === undefined) told.push(result)
    else told.push({ id: result.id, refused: denied(failure.code, failure.message) })
  }
  if (failure !== undefined && !results.some((result) => 'escalation' in result)) throw failure
  return told
}

async function failureOf(recording: Promise<void>): Promise<Refusal | undefined> {
  try {
    await recording
    return undefined
  } catch (error) {
    if (isRefusal(error)) return error
    throw error
  }
}

function resultJson(result: VoteResult): VoteResultJson {
  if ('escalation' in result) return result
  const { code, message, denial } = result.refused
  const reason = denial?.reason === undefined ? {} : { denial_reason: denial.reason }
  return { id: result.id, refused: { error: code, message, ...reason } }
}

function votesOf({ escalations, ...given }: z.output<typeof votesSchema>) {
  return escalations.map(({ id, ...hash }) => ({ id, ...voteOf({ ...given, ...hash }) }))
}

function voteOf(body: z.output<typeof voteSchema>): GivenVote {
  const { vote, comment, input_sha256: inputSha256, passkey } = body
  return {
    vote,
    ...(passkey === undefined
      ? {}
      : {
          passkey: {
            nonce: passkey.nonce,
            credentialId: passkey.credential_id,
            authenticatorData: passkey.authenticator_data,
            clientDataJson: passkey.client_data_json,
            signature: passkey.signature,
            ...defined({ batch: passkey.batch }),
          },
        }),
    ...defined({ comment, inputSha256 }),
  }
}
