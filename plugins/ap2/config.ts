// The `ap2` section (contract.md §2.15).
import { z } from 'zod'

const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'not a header name (RFC 9110 §5.1)')

const headersSchema = z
  .strictObject({
    intent: headerName.optional().describe('Header that carries the intent mandate.'),
    cart: headerName.optional().describe('Header that carries the cart mandate.'),
    bundle: headerName.optional().describe('Header that carries both in one bundle.'),
  })
  .describe('In which request headers the mandates travel.')

const trustSchema = z
  .strictObject({
    didMethods: z.array(z.string().min(1)).optional().describe('Allowed DID methods, such as `web`.'),
    issuersAllowlist: z.array(z.string().min(1)).optional().describe('Issuers whose mandates are accepted.'),
    clockSkewSec: z.number().min(0).optional().describe('Tolerated difference of clocks, in seconds.'),
  })
  .describe('Whose mandates are believed.')

export const ap2Schema = z
  .strictObject({
    enabled: z.boolean().optional().describe('Check mandates.'),
    requireForSideEffects: z.boolean().optional().describe('Side-effecting calls must carry a mandate.'),
    headers: headersSchema.optional(),
    trust: trustSchema.optional(),
    tools: z
      .strictObject({
        allow: z
          .array(z.string().min(1))
          .optional()
          .describe('Patterns of the tools that mandates may pay for.'),
      })
      .optional()
      .describe('Which tools mandates apply to.'),
    mode: z
      .enum(['', 'observe', 'partial', 'full'])
      .optional()
      .describe(
        'How much a missing or wrong mandate weighs; the empty string leaves the choice to `enforcement`.',
      ),
    policyWebhookUrl: z.url().optional().describe('Address that is asked for a decision on a mandate.'),
  })
  .describe('Mandates of the Agent Payments Protocol. May also stand as `security.ap2`.')

export type Ap2Config = z.output<typeof ap2Schema>
