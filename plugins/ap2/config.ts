// The `ap2` section.
import { z } from 'zod'

const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'not a header name (RFC 9110 §5.1)')

const headersSchema = z
  .strictObject({
    intent: headerName.optional().describe('Header with the intent mandate.'),
    cart: headerName.optional().describe('Header with the cart mandate.'),
    bundle: headerName.optional().describe('Header with both mandates in one bundle.'),
  })
  .describe('Request headers of the mandates.')

const trustSchema = z
  .strictObject({
    didMethods: z.array(z.string().min(1)).optional().describe('Allowed DID methods, such as `web`.'),
    issuersAllowlist: z.array(z.string().min(1)).optional().describe('Issuers whose mandates are accepted.'),
    clockSkewSec: z.number().min(0).optional().describe('Tolerated clock skew in seconds.'),
  })
  .describe('Which issuers of mandates are trusted.')

export const ap2Schema = z
  .strictObject({
    enabled: z.boolean().optional().describe('Verify mandates.'),
    requireForSideEffects: z.boolean().optional().describe('Side-effecting calls require a mandate.'),
    headers: headersSchema.optional(),
    trust: trustSchema.optional(),
    tools: z
      .strictObject({
        allow: z.array(z.string().min(1)).optional().describe('Patterns of the tools that accept mandates.'),
      })
      .optional()
      .describe('Which tools mandates apply to.'),
    mode: z
      .enum(['', 'observe', 'partial', 'full'])
      .optional()
      .describe('How a missing or invalid mandate is treated; the empty string leaves it to `enforcement`.'),
    policyWebhookUrl: z.url().optional().describe('URL that decides about a mandate.'),
  })
  .describe('Mandates of the Agent Payments Protocol. May also be written as `security.ap2`.')

export type Ap2Config = z.output<typeof ap2Schema>
