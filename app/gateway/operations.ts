// The operations of the admin listener that operators may use on a gateway.
import { type Identity, isRefusal, Refusal, type Reviewer, resolveOptional } from '@svc/core'
import { isJsonObject, visibleInLine } from '@svc/core/json'
import { type DefinitionReviews, definitionReviews, type ServerReview } from '@svc/plugin-protections'
import type { DependencyContainer } from 'tsyringe'
import { z } from 'zod'
import { type Operation, operation } from '../admin/operation.js'
import { describeRefusal, type ReloadCause, type ReloadedPolicy } from './reload-records.js'

export function reloadOperation(reload: (cause: ReloadCause) => Promise<ReloadedPolicy>): Operation {
  return operation({
    method: 'POST',
    path: '/api/policy/reload',
    name: 'reload_policy',
    summary: 'Loads the policy file anew.',
    access: 'operator',
    isUnrecorded: true,
    body: z.strictObject({}),
    response: z.object({
      policy_sha256: z.string().nullable(),
      previous_sha256: z.string().nullable(),
      by: z.string(),
      gains: z.boolean().nullable().optional().describe('Whether somebody gains; null if that is not known.'),
      changes: z.array(z.string()).optional(),
      more: z.int().optional().describe('Number of changes that are left out.'),
    }),
    async run({ client }) {
      try {
        return await reload({ by: `admin API${describeToken(client)}`, user: userOf(client) })
      } catch (cause) {
        if (isRefusal(cause)) throw cause
        const message = `The policy is refused, and the one in force stays: ${describeRefusal(cause)}`
        throw new Refusal('BAD_REQUEST', message, { cause })
      }
    },
  })
}

const serverReviewSchema = z.object({
  server: z.string(),
  review: z.string().describe('Names this set of definitions.'),
  definitions: z.array(
    z.object({
      kind: z.enum(['tool', 'prompt', 'template', 'instructions']),
      name: z.string(),
      sha256: z.string(),
      at: z.string().describe('When it was first received.'),
      text: z.string().optional().describe('Canonical JSON; absent if it is no longer kept.'),
      pinned: z.array(z.string()).describe('Canonical JSON of the pinned definitions of its name.'),
      difference: z
        .array(z.string())
        .optional()
        .describe('The differences from the first pinned one, in lines with hidden characters escaped.'),
    }),
  ),
})

export type ServerReviewJson = z.output<typeof serverReviewSchema>

function reviewJson({ definitions, ...review }: ServerReview): ServerReviewJson {
  return {
    ...review,
    definitions: definitions.map(({ pinned, ...rest }) => ({
      ...rest,
      pinned: [...pinned],
      ...(rest.text === undefined ? {} : { difference: differenceLines(pinned[0], rest.text) }),
    })),
  }
}

/** `container` has the bindings of the policy in force. */
export function definitionOperations(container: () => DependencyContainer): Operation[] {
  const reviews = (): DefinitionReviews => {
    const found = resolveOptional(container(), definitionReviews)
    if (found !== undefined) return found
    throw new Refusal('TARGET_NOT_FOUND', 'The policy in force has no protections.definitions.')
  }
  return [
    operation({
      method: 'GET',
      path: '/api/definitions',
      name: 'list_definitions',
      summary: 'Lists the servers with definitions that wait.',
      access: 'auditor',
      response: z.object({ servers: z.array(serverReviewSchema) }),
      run: async () => ({ servers: (await reviews().waiting()).map(reviewJson) }),
    }),
    operation({
      method: 'POST',
      path: '/api/definitions/accept',
      name: 'accept_definitions',
      summary: 'Pins the definitions of a review, and returns it.',
      access: 'operator',
      isUnrecorded: true,
      body: z.strictObject({ server: z.string(), review: z.string() }),
      response: serverReviewSchema,
      run: async ({ client, body: { server, review } }) =>
        reviewJson(await reviews().accept(server, review, client)),
    }),
  ]
}

const shadowSchema = z.object({
  policy: z.string(),
  error: z.string().optional().describe('Why it judges nothing.'),
  policy_sha256: z.string().nullable().optional(),
  judged: z.int().optional(),
  of: z.int().optional(),
  failed: z.int().optional(),
  unknown: z.int().optional().describe('Calls whose decision rests on what the candidate does not know.'),
  different: z.int().optional(),
  differences: z
    .array(
      z.object({
        tool: z.string(),
        in_force: z.string(),
        shadow: z.string(),
        reason: z.string(),
        trace_id: z.string(),
        calls: z.int(),
      }),
    )
    .optional(),
})

export type ShadowJson = z.output<typeof shadowSchema>

/** `status` returns undefined if the policy in force names no shadow policy. */
export function shadowOperation(status: () => object | undefined): Operation {
  return operation({
    method: 'GET',
    path: '/api/policy/shadow',
    name: 'show_shadow',
    summary: 'Compares the shadow policy with the one in force.',
    access: 'auditor',
    response: shadowSchema,
    async run() {
      const shadow = status()
      if (shadow !== undefined) return shadow
      throw new Refusal(
        'TARGET_NOT_FOUND',
        'The policy in force names no shadow policy (shadow: { policy: FILE }).',
      )
    },
  })
}

function describeToken({ kind }: Reviewer): string {
  return kind === 'admin' ? ', with the admin token' : ''
}

function userOf(client: Reviewer): Identity | undefined {
  return client.kind === 'user' ? client.identity : undefined
}

/**
 * Compares two definitions, member by member, for a review. `pinned` is undefined for a new definition. Texts of
 * servers are shown with their hidden characters.
 */
function differenceLines(pinned: string | undefined, text: string): string[] {
  if (pinned === undefined) return [`+ ${visibleInLine(text)}`]
  return differences(JSON.parse(pinned), JSON.parse(text), '')
}

function differences(before: unknown, after: unknown, pointer: string): string[] {
  if (isJsonObject(before) && isJsonObject(after)) {
    const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
    return names.flatMap((name) =>
      differences(memberOf(before, name), memberOf(after, name), `${pointer}/${escaped(name)}`),
    )
  }
  const [removed, added] = [before, after].map((value) => JSON.stringify(value))
  if (removed === added) return []
  return [
    visibleInLine(pointer === '' ? 'the whole' : pointer),
    ...(removed === undefined ? [] : [`  - ${visibleInLine(removed)}`]),
    ...(added === undefined ? [] : [`  + ${visibleInLine(added)}`]),
  ]
}

function memberOf(value: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(value, name) ? value[name] : undefined
}

/** RFC 6901. */
function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}
