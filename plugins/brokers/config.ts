// The `brokers` section (contract.md §2.11).
import { z } from 'zod'

const brokerSchema = z
  .strictObject({
    type: z
      .enum(['vendor_key_pool', 'oidc_on_behalf', 'static'])
      .describe(
        "Where the credential comes from: a pool of the vendor's keys, an exchange of the caller's token, or one fixed key.",
      ),
    key_refs: z.array(z.string().min(1)).optional().describe('References of the keys, such as `file://…`.'),
    inject: z
      .strictObject({
        header: z
          .string()
          .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'not a header name (RFC 9110 §5.1)')
          .describe('Header the credential is put into.'),
        format: z.enum(['raw', 'bearer', 'template']).describe('How it is written there.'),
      })
      .describe('How the upstream gets the credential.'),
  })
  .describe('The credential for one upstream server.')

export const brokersSchema = z
  .record(z.string().min(1), brokerSchema)
  .describe('Credentials for upstreams, by the name of the server in `targets`.')

export type BrokersConfig = z.output<typeof brokersSchema>
