// The billing service behind the gateway: three customers, four invoices and four tools. Two tools only read; the other
// two move money or delete records, so a policy controls them.
import { z } from 'zod'

export interface Invoice {
  readonly id: string
  readonly customer: string
  readonly amount_cents: number
  readonly currency: 'EUR'
  readonly status: 'open' | 'paid' | 'refunded'
}

/** One tool. `run` checks its arguments itself, so both protocols of the server treat them alike. */
export interface Tool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly input: z.ZodObject
  readonly readOnly: boolean
  /** Throws `z.ZodError` for arguments of the wrong shape and `UnknownRecord` for an unknown invoice or customer. */
  run(args: unknown): Record<string, unknown>
}

export class UnknownRecord extends Error {
  override readonly name = 'UnknownRecord'
}

export const refundRules = [
  'A refund needs the invoice number, an amount and a reason.',
  'Only a paid invoice can be refunded, once.',
  'A reviewer approves each refund; an agent may look up invoices and request a refund.',
].join('\n')

/** Each service has its own invoices, in memory. */
export function createBillingService(): {
  readonly tools: readonly Tool[]
  readonly refunds: readonly string[]
} {
  const invoices = new Map<string, Invoice>(firstInvoices.map((invoice) => [invoice.id, invoice]))
  const refunds: string[] = []

  const invoiceOf = (id: string): Invoice => {
    const invoice = invoices.get(id)
    if (invoice === undefined) throw new UnknownRecord(`There is no invoice ${id}.`)
    return invoice
  }

  const tools = [
    tool({
      name: 'list_invoices',
      title: 'List invoices',
      description: 'All invoices, or those of one status.',
      input: z.strictObject({ status: z.enum(['open', 'paid', 'refunded']).optional() }),
      readOnly: true,
      run: ({ status }) => ({
        invoices: [...invoices.values()].filter(
          (invoice) => status === undefined || invoice.status === status,
        ),
      }),
    }),
    tool({
      name: 'get_invoice',
      title: 'Look up an invoice',
      description: 'One invoice by its number, for example INV-1001.',
      input: z.strictObject({ invoice: z.string() }),
      readOnly: true,
      run: ({ invoice }) => ({ ...invoiceOf(invoice) }),
    }),
    tool({
      name: 'refund_payment',
      title: 'Refund a payment',
      description: 'Refunds an amount in EUR of a paid invoice.',
      input: z.strictObject({ invoice: z.string(), amount: z.number(), reason: z.string() }),
      readOnly: false,
      run: ({ invoice: id, amount }) => {
        const invoice = invoiceOf(id)
        if (invoice.status !== 'paid')
          throw new UnknownRecord(`Invoice ${id} is ${invoice.status}, not paid.`)
        if (amount * 100 > invoice.amount_cents)
          throw new UnknownRecord(`Invoice ${id} is ${invoice.amount_cents / 100} EUR, less than ${amount}.`)
        const refunded: Invoice = { ...invoice, status: 'refunded' }
        invoices.set(id, refunded)
        refunds.push(id)
        return { ...refunded }
      },
    }),
    tool({
      name: 'delete_customer',
      title: 'Delete a customer',
      description: 'Deletes a customer and all their invoices. This cannot be undone.',
      input: z.strictObject({ customer: z.string() }),
      readOnly: false,
      run: ({ customer }) => {
        const theirs = [...invoices.values()].filter((invoice) => invoice.customer === customer)
        if (theirs.length === 0) throw new UnknownRecord(`There is no customer ${customer}.`)
        for (const { id } of theirs) invoices.delete(id)
        return { customer, deleted_invoices: theirs.length }
      },
    }),
  ]
  return { tools, refunds }
}

const firstInvoices: readonly Invoice[] = [
  { id: 'INV-1001', customer: 'Harbour Bakery', amount_cents: 42_000, currency: 'EUR', status: 'paid' },
  { id: 'INV-1002', customer: 'Lindqvist Cycles', amount_cents: 129_900, currency: 'EUR', status: 'open' },
  { id: 'INV-1003', customer: 'Okafor & Daughters', amount_cents: 8_650, currency: 'EUR', status: 'paid' },
  { id: 'INV-1004', customer: 'Harbour Bakery', amount_cents: 42_000, currency: 'EUR', status: 'open' },
]

function tool<Shape extends z.ZodRawShape>(
  definition: Omit<Tool, 'input' | 'run'> & {
    readonly input: z.ZodObject<Shape>
    run(args: z.output<z.ZodObject<Shape>>): Record<string, unknown>
  },
): Tool {
  return { ...definition, run: (args) => definition.run(definition.input.parse(args)) }
}
