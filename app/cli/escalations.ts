// `svc escalations`: lists escalations and votes on them, over the API of the admin listener.
import { defined, sha256Hex, visibleInLine } from '@svc/core/json'
import { Command, Option } from 'commander'
import { z } from 'zod'
import { type AdminClient, AdminError } from './admin-client.js'
import { type AdminFlags, adminClientOf, parseAdminResponse, withAdminOptions } from './admin-options.js'
import { type CliIo, type Environment, processIo } from './io.js'
import { withManual } from './manual.js'
import { table } from './table.js'

interface ListFlags extends AdminFlags {
  readonly status?: 'pending' | 'approved' | 'rejected' | 'all'
  readonly review?: 'open' | 'confirmed' | 'objected'
  readonly tenant?: string
  readonly passkeys?: true
  readonly limit: string
}

interface ShowFlags extends AdminFlags {
  readonly input?: boolean
}

interface VoteFlags extends AdminFlags {
  readonly comment?: string
  readonly inputSha256?: string
}

/** The fields of a response that are shown. */
const caseSchema = z.object({
  id: z.string(),
  status: z.string(),
  tenant: z.string(),
  principal: z.string(),
  reference: z.string(),
  reason: z.string(),
  detail: z.string().optional(),
  args: z.string().optional(),
  args_truncated: z.boolean().optional(),
  input_sha256: z.string().optional(),
  severity: z.string(),
  strategy: z.string(),
  approval_set_id: z.string().optional(),
  second_set_id: z.string().optional(),
  emergency: z.object({ reason: z.string().optional(), review: z.string() }).optional(),
  enrolment: z.object({ code: z.string(), revoked_at: z.string().optional() }).optional(),
  approval_note: z.string().optional(),
  votes: z.array(
    z.object({ reviewer: z.string(), vote: z.string(), at: z.string(), comment: z.string().optional() }),
  ),
  created_at: z.string(),
  expires_at: z.string(),
  decided_at: z.string().optional(),
  decided_by: z.string().optional(),
  used: z.boolean(),
  trace_id: z.string(),
})
const resultsSchema = z.object({
  results: z.array(
    z.object({
      id: z.string(),
      escalation: caseSchema.optional(),
      refused: z.object({ error: z.string(), message: z.string() }).optional(),
    }),
  ),
})
const listSchema = z.object({ escalations: z.array(caseSchema), more: z.boolean() })
const rawListSchema = z.looseObject({ escalations: z.array(z.unknown()), next: z.string().optional() })

type Case = z.output<typeof caseSchema>

export function escalationsCommand(io: CliIo = processIo(), env: Environment = process.env): Command {
  const escalations = new Command('escalations')

  const listing = withAdminOptions(escalations.command('list'))
    .description('list escalations, newest first')
    .addOption(
      new Option('--status <status>', 'only this status (default pending)').choices([
        'pending',
        'approved',
        'rejected',
        'all',
      ]),
    )
    .addOption(
      new Option('--review <state>', 'only emergency calls whose review is in this state').choices([
        'open',
        'confirmed',
        'objected',
      ]),
    )
    .option('--tenant <tenant>', 'only this tenant')
    .option('--passkeys', 'only passkeys that reviewers registered (of any status)')
    .option('--limit <n>', 'at most this number, up to 500', '100')
    .action((flags: ListFlags) => list(flags, io, env))
  withManual(listing, { example: '--policy policy.yaml' })

  const showing = withAdminOptions(escalations.command('show'))
    .description('show an escalation with its votes')
    .argument('<id>', 'its id, as `escalations list` prints it')
    .option('--input', 'print the whole input of the call instead, and its hash, which `approve` needs')
    .action((id: string, flags: ShowFlags) => (flags.input === true ? showInput : show)(id, flags, io, env))
  withManual(showing, { example: 'esc_7f3a --policy policy.yaml' })

  for (const choice of ['approve', 'reject'] as const) {
    const voting = withAdminOptions(escalations.command(choice))
      .description(`vote to ${choice} escalations`)
      .argument('<ids...>', 'their ids, as `escalations list` prints them')
      .option('--comment <text>', 'the reason, for the other reviewers and the record')
      .option(
        '--input-sha256 <hash>',
        'of one escalation: hash of the whole input, as `escalations show --input` prints it',
      )
      .action((ids: string[], flags: VoteFlags) => vote(choice, ids, flags, io, env))
    withManual(voting, { example: "esc_7f3a --policy policy.yaml --comment 'asked the owner'" })
  }
  const revoking = withAdminOptions(escalations.command('revoke'))
    .description('end a passkey that a reviewer registered')
    .argument('<id>', 'its id, as `escalations list --passkeys` prints it')
    .action(async (id: string, flags: AdminFlags) => {
      const client = await adminClientOf(flags, env)
      await print(caseIn(await client.ask(`api/passkeys/${encodeURIComponent(id)}/revoke`, {})), flags, io)
    })
  withManual(revoking, { example: 'esc_7f3a --policy policy.yaml' })
  return escalations
}

async function vote(
  choice: 'approve' | 'reject',
  ids: readonly string[],
  flags: VoteFlags,
  io: CliIo,
  env: Environment,
): Promise<void> {
  const { comment, inputSha256 } = flags
  const [id = '', ...others] = ids
  if (others.length > 0) return voteOnSeveral(choice, ids, flags, io, env)
  const body = {
    vote: choice,
    ...defined({ comment, input_sha256: inputSha256 }),
  }
  const client = await adminClientOf(flags, env)
  await print(caseIn(await client.ask(`${pathOf(id)}/votes`, body)), flags, io)
}

/** Prints the subject of each vote, with its hash, and the result of the vote. */
async function voteOnSeveral(
  choice: 'approve' | 'reject',
  ids: readonly string[],
  { comment, inputSha256, ...flags }: VoteFlags,
  io: CliIo,
  env: Environment,
): Promise<void> {
  if (inputSha256 !== undefined) throw new AdminError('--input-sha256 is of one escalation')
  const client = await adminClientOf(flags, env)
  const shown = new Map<string, Case>()
  for (const id of ids) shown.set(id, caseIn(await client.ask(pathOf(id))).shown)
  const escalations = [...shown].map(([id, { input_sha256 }]) => ({ id, input_sha256 }))
  const body = { vote: choice, escalations, ...defined({ comment }) }
  const response = await client.ask('api/escalations/votes', body)
  const { results } = parseAdminResponse(resultsSchema, response)
  if (flags.json === true) await io.out(`${JSON.stringify(response)}\n`)
  else {
    const rows = results.map(({ id, escalation, refused }) => {
      const { reference = '', args = '', input_sha256: hash = '' } = shown.get(id) ?? {}
      const became = refused === undefined ? stateOf(escalation) : `refused: ${refused.message}`
      return [id, reference, args, hash, became].map(visibleInLine)
    })
    await io.out(table([['ID', 'CALL', 'ARGS', 'INPUT_SHA256', 'RESULT'], ...rows]))
  }
  const refused = results.filter((result) => result.refused !== undefined).length
  if (refused > 0) throw new AdminError(`${refused} of ${results.length} votes were refused`)
}

/** The status, or the state of the review or the passkey. */
function stateOf(shown: Case | undefined): string {
  if (shown?.enrolment?.revoked_at !== undefined) return 'revoked'
  return shown?.emergency === undefined ? (shown?.status ?? '') : `review ${shown.emergency.review}`
}

async function list(flags: ListFlags, io: CliIo, env: Environment): Promise<void> {
  const { review, tenant, passkeys, limit, json } = flags
  const { status = review === undefined && passkeys === undefined ? 'pending' : 'all' } = flags
  const query = new URLSearchParams({
    ...(status === 'all' ? {} : { status }),
    ...defined({ review, tenant }),
    ...(passkeys === undefined ? {} : { enrolments: 'true' }),
  })
  const client = await adminClientOf(flags, env)
  const response = await listed(client, query, limit)
  if (json === true) return io.out(`${JSON.stringify(response)}\n`)
  const { escalations, more } = parseAdminResponse(listSchema, response)
  if (escalations.length === 0) return io.out(status === 'all' ? 'none\n' : `none that are ${status}\n`)
  await io.out(table([headings, ...escalations.map(row)]))
  if (more) io.err('there are more; --limit shows them\n')
}

/** The first `limit` escalations; a page of the gateway may have fewer although there are others. */
async function listed(client: AdminClient, query: URLSearchParams, limit: string): Promise<unknown> {
  query.set('limit', limit)
  const first = await client.ask(`api/escalations?${query}`)
  let page = parseAdminResponse(rawListSchema, first)
  const escalations = [...page.escalations]
  while (page.next !== undefined && escalations.length < Number(limit)) {
    query.set('limit', String(Number(limit) - escalations.length))
    query.set('after', page.next)
    page = parseAdminResponse(rawListSchema, await client.ask(`api/escalations?${query}`))
    escalations.push(...page.escalations)
  }
  return { ...page, escalations }
}

async function show(id: string, flags: AdminFlags, io: CliIo, env: Environment): Promise<void> {
  const client = await adminClientOf(flags, env)
  await print(caseIn(await client.ask(pathOf(id))), flags, io)
}

/** The input goes to standard output and its hash to standard error, so that the input can be piped. */
async function showInput(id: string, flags: ShowFlags, io: CliIo, env: Environment): Promise<void> {
  const client = await adminClientOf(flags, env)
  const { text, etag } = await client.text(`${pathOf(id)}/input`)
  const hash = sha256Hex(text)
  if (etag !== `"${hash}"`) throw new AdminError('the input does not have the hash that came with it')
  if (flags.json === true) return io.out(`${JSON.stringify({ input: text, input_sha256: hash })}\n`)
  await io.out(`${visibleInLine(text)}\n`)
  io.err(`to approve it: --input-sha256 ${hash}\n`)
}

/** Without this check an id could name another path. */
function pathOf(id: string): string {
  return `api/escalations/${encodeURIComponent(id)}`
}

function caseIn(response: unknown): { response: unknown; shown: Case } {
  return { response, shown: parseAdminResponse(caseSchema, response) }
}

const headings = ['ID', 'STATUS', 'OPENED', 'EXPIRES', 'TENANT', 'CALLER', 'CALL', 'WHY', 'VOTES']

function row(shown: Case): string[] {
  const { id, created_at, expires_at, tenant, principal, reference, reason } = shown
  return [id, stateOf(shown), created_at, expires_at, tenant, principal, reference, reason, tally(shown)].map(
    visibleInLine,
  )
}

function tally({ votes }: Case): string {
  const approvals = votes.filter(({ vote }) => vote === 'approve').length
  return `${approvals} for, ${votes.length - approvals} against`
}

async function print(
  { response, shown }: ReturnType<typeof caseIn>,
  flags: AdminFlags,
  io: CliIo,
): Promise<void> {
  if (flags.json === true) return io.out(`${JSON.stringify(response)}\n`)
  const { decided_at: decidedAt, decided_by: decidedBy, approval_set_id: set, second_set_id: second } = shown
  const sets = [set, second].filter((one) => one !== undefined)
  const decided = decidedAt === undefined ? '' : ` by ${decidedBy ?? 'somebody'} at ${decidedAt}`
  const lines: [name: string, text: string | undefined][] = [
    ['id', shown.id],
    ['status', `${shown.status}${decided}${shown.used ? ', used' : ''}`],
    ['revoked', shown.enrolment?.revoked_at],
    ['code', shown.enrolment?.code],
    ['call', shown.reference],
    ['args', shown.args],
    [
      'truncated',
      shown.args_truncated === true ? 'read the whole input with --input before you approve' : undefined,
    ],
    ['caller', `${shown.principal} of ${shown.tenant}`],
    ['why', shown.detail === undefined ? shown.reason : `${shown.reason}: ${shown.detail}`],
    ['severity', shown.severity],
    ['emergency', shown.emergency && `${shown.emergency.reason ?? ''}; review ${shown.emergency.review}`],
    ['strategy', sets.length === 0 ? shown.strategy : `${shown.strategy}, by ${sets.join(' and ')}`],
    ['note', shown.approval_note],
    ['opened', shown.created_at],
    ['expires', shown.expires_at],
    ['trace', shown.trace_id],
    ...shown.votes.map(({ reviewer, vote, at, comment }): [string, string] => [
      vote,
      `${reviewer} at ${at}${comment === undefined ? '' : `: ${comment}`}`,
    ]),
  ]
  const shownLines = lines.map(([name, text]) =>
    text === undefined ? '' : `${name.padEnd(9)} ${visibleInLine(text)}\n`,
  )
  await io.out(shownLines.join(''))
}
