// `svc policy shadow`: what the shadow policy of a running gateway decides otherwise.
import { visibleInLine } from '@svc/core/json'
import { Command } from 'commander'
import { z } from 'zod'
import { AdminError } from './admin-client.js'
import { type AdminFlags, adminClientOf, parseAdminResponse, withAdminOptions } from './admin-options.js'
import type { CliIo, Environment } from './io.js'
import { withManual } from './manual.js'
import { table } from './table.js'

const statusSchema = z.object({
  policy: z.string(),
  policy_sha256: z.string().nullable(),
  judged: z.number(),
  of: z.number(),
  failed: z.number(),
  unknown: z.number().default(0),
  different: z.number(),
  differences: z.array(
    z.object({
      tool: z.string(),
      in_force: z.string(),
      shadow: z.string(),
      reason: z.string(),
      trace_id: z.string(),
      calls: z.number(),
    }),
  ),
})
const unusedSchema = z.object({ policy: z.string(), error: z.string() })

export function policyShadowCommand(io: CliIo, env: Environment): Command {
  const command = withAdminOptions(new Command('shadow'))
    .description('report what the shadow policy of a running gateway decides otherwise')
    .action((flags: AdminFlags) => report(flags, io, env))
  return withManual(command, { example: '--policy policy.yaml' })
}

async function report(flags: AdminFlags, io: CliIo, env: Environment): Promise<void> {
  const client = await adminClientOf(flags, env)
  const response = await client.ask('api/policy/shadow')
  const unused = unusedSchema.safeParse(response)
  if (unused.success) throw new AdminError(`${unused.data.policy}: ${unused.data.error}`)
  if (flags.json === true) return io.out(`${JSON.stringify(response)}\n`)
  const { policy, policy_sha256, judged, of, failed, unknown, different, differences } = parseAdminResponse(
    statusSchema,
    response,
  )
  const rows = differences.map(({ calls, in_force, shadow, tool, reason, trace_id }) =>
    [`  ${calls}`, `${in_force} -> ${shadow}`, tool, reason, `e.g. trace ${trace_id}`].map(visibleInLine),
  )
  const lines = [
    `${policy} ${policy_sha256?.slice(0, 16) ?? ''}`,
    `judged     ${judged} of ${of} calls${failed === 0 ? '' : `, failed on ${failed}`}${unknown === 0 ? '' : `, unknown for ${unknown}`}`,
    `different  ${different} of ${judged}`,
  ]
  await io.out(`${lines.map((line) => `${visibleInLine(line)}\n`).join('')}${table(rows)}`)
}
