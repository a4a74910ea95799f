// Schema of `vars`: values that the conditions of rules read.
import { z } from 'zod'

const MAX_ITEMS = 1000

const valueSchema = z.union([
  z.string(),
  z.number().refine((value) => !Number.isInteger(value) || Number.isSafeInteger(value), {
    error: 'not exact; accepted are whole numbers below 2^53',
  }),
  z.boolean(),
  z.array(z.union([z.string(), z.number()])).max(MAX_ITEMS),
])

const perTenantSchema = z
  .strictObject({
    default: valueSchema.describe('Value for tenants that are not listed.'),
    tenants: z.record(z.string().min(1), valueSchema).describe('Values by tenant.'),
  })
  .superRefine(({ default: common, tenants }, context) => {
    for (const [tenant, value] of Object.entries(tenants)) {
      if (kindOf(value) === kindOf(common)) continue
      const message = `a ${kindOf(value)}, and the default is a ${kindOf(common)}; accepted is one type for all tenants`
      context.addIssue({ code: 'custom', path: ['tenants', tenant], message })
    }
  })

export const varsSchema = z
  .record(
    z.string().regex(/^[A-Za-z_]\w{0,63}$/, 'expected a name of letters, digits and "_"'),
    z.union([valueSchema, perTenantSchema]),
  )
  .optional()
  .describe(
    'Values that conditions of `rules` read as `vars.<name>`: texts, numbers, true or false, and lists; or `{ default, tenants }` with a value for each tenant.',
  )

function kindOf(value: z.infer<typeof valueSchema>): string {
  if (!Array.isArray(value)) return typeof value
  return value.every((item) => typeof item === 'string') ? 'list of texts' : 'list'
}
