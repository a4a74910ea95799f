// Budgets of what the process has once, whatever the number of gateways and servers in it: its event loop and its memory.
import { Budget } from './budget.js'

/** The work on lines that processes write is given back after this time, in milliseconds. */
export const lineWindowMs = 10
/** The costs of a line beside its bytes, in bytes: reading one of a few bytes takes as long as 256 bytes of a long one. */
export const lineCost = 256

/** Bytes of lines that are read in one window; one server has at most half, so that another is read meanwhile. */
export const lineBudget = new Budget({ limit: 131_072, limitOfOwner: 65_536 })
