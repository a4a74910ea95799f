// The `security` section (contract.md §2.12).
import { compilePattern, PatternError } from '@svc/core/match'
import { z } from 'zod'
import { HostPatternError, parseHostPattern } from './egress/patterns.js'
import { PathPatternError, parsePathPattern, parseRoot } from './fs/patterns.js'
import { humanEscalationSchema } from './human-escalation.js'
import { versionPattern } from './versions.js'

/** The longest delay that a timer of Node's can have. */
const MAX_DELAY_MS = 2_147_483_647

const allowVersions = z
  .record(z.string().min(1), z.array(z.string().min(1)).describe('Its versions, exact or with `*`.'))
  .superRefine((servers, context) => {
    for (const [server, versions] of Object.entries(servers)) {
      addMistakes(context, [server], versions, (version) => compilePattern(versionPattern(server, version)))
    }
  })
  .describe('Server name to the versions of it that may be called. Servers not named here may have any.')

const egressAllowlist = z
  .array(z.string().min(1))
  .superRefine((hosts, context) => addMistakes(context, [], hosts, parseHostPattern))
  .describe(
    'Hosts that arguments may name: `host`, `*.domain` or `*`, with `:port` or `scheme://` or without. Empty allows none.',
  )

const fsAllowlist = z
  .array(z.string().min(1))
  .superRefine((paths, context) =>
    addMistakes(context, [], paths, (path) => parsePathPattern(path, undefined)),
  )
  .describe(
    'Paths that arguments may name; `*` within a name, `**` for any number of names. Empty allows none.',
  )

const fsRoot = z
  .string()
  .min(1)
  .superRefine((path, context) => addMistakes(context, [], [path], parseRoot, true))
  .describe('The directory in which relative paths and relative patterns begin: absolute.')

const sideEffects = z
  .strictObject({
    require_idempotency_key: z
      .boolean()
      .optional()
      .describe('Whether a side-effecting call without an idempotency key is a finding.'),
    tools: z
      .record(z.string().min(1), z.boolean())
      .superRefine((tools, context) => {
        for (const pattern of Object.keys(tools)) {
          addMistakes(context, [pattern], [pattern], compilePattern, true)
        }
      })
      .optional()
      .describe('Pattern to whether such tools change something; the most specific pattern wins.'),
    trust_annotations: z
      .boolean()
      .optional()
      .describe(
        'Whether the `readOnlyHint` and `destructiveHint` of MCP servers say which of their tools change something.',
      ),
    approve_high_risk: z
      .boolean()
      .optional()
      .describe('Whether what `enforcement.escalate_on` names is put to people instead of being denied.'),
    human_escalation: humanEscalationSchema.optional(),
  })
  .describe('Which calls may change something, and what they must carry.')

export const securitySchema = z
  .strictObject({
    allow_versions: allowVersions.optional(),
    egress_allowlist: egressAllowlist.optional(),
    fs_allowlist: fsAllowlist.optional(),
    fs_root: fsRoot.optional(),
    limits: z
      .strictObject({
        max_payload_kb: z
          .number()
          .positive()
          .optional()
          .describe('Kilobytes of 1024 bytes: of what the caller sends, and of what is answered.'),
        max_duration_ms: z
          .int()
          .min(1)
          .max(MAX_DELAY_MS)
          .optional()
          .describe("Milliseconds from the stage's turn to the last byte of the answer."),
      })
      .optional()
      .describe('Sizes and durations; what exceeds one is a finding.'),
    side_effects: sideEffects.optional(),
  })
  .describe('What a call may touch, and how much: what breaks a rule here is a finding.')

export type SecurityConfig = z.infer<typeof securitySchema>

/** Reads each text, and reports what is wrong with it at its place in the list. */
function addMistakes(
  context: z.core.$RefinementCtx,
  path: readonly string[],
  texts: readonly string[],
  read: (text: string) => unknown,
  isAlone = false,
): void {
  for (const [i, text] of texts.entries()) {
    try {
      read(text)
    } catch (thrown) {
      if (!isMistake(thrown)) throw thrown
      context.addIssue({ code: 'custom', path: isAlone ? [...path] : [...path, i], message: thrown.message })
    }
  }
}

function isMistake(thrown: unknown): thrown is Error {
  return (
    thrown instanceof PatternError || thrown instanceof HostPatternError || thrown instanceof PathPatternError
  )
}
