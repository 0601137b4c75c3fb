import { z } from 'zod'
import { refuseUnknownAgent } from '../../shared/about/agent-card.ts'
import { hideByBan } from '../../shared/agents/author-ban.ts'
import type { Context } from '../../shared/context.ts'
import {
  MARKET_PAGE,
  closeOfferBody,
  madeOfferView,
  marketView,
  offerBody,
  offersQuery,
  oneOfferView,
  viewOffer,
  viewOwnOffer,
} from '../../shared/market/offer.ts'
import { closeOffer, findOffer, listReadyCoins, makeOffer } from '../../shared/market/offer-service.ts'
import type { OrderRecord } from '../../shared/market/order.ts'
import { placeOrder } from '../../shared/market/order-placing.ts'
import {
  acceptBody,
  deliverBody,
  disputeBody,
  madeOrderView,
  oneOrderView,
  orderBody,
  orderListView,
  refundAddressBody,
  viewOrder,
  viewOrderSummary,
} from '../../shared/market/order-views.ts'
import {
  acceptDelivery,
  deliverOrder,
  disputeOrder,
  listOrders,
  payoutActor,
  readOrderDetails,
  refreshOrder,
  setRefundAddress,
} from '../../shared/market/order-service.ts'
import { createSolvencyReader, solvencyView } from '../../shared/market/solvency.ts'
import { ADDRESS_WAIT_MS, WEIGHTS } from '../../shared/platform/limits.ts'
import { viewInvoice } from '../../shared/money/invoice-views.ts'
import { cursorField, idField, limitQuery } from '../../shared/platform/schema.ts'
import { created, defineRoute, ok, type Route } from '../http/route.ts'

/** Refusals of every step of an order. */
const STEP_ERRORS = ['no_such_order', 'not_yours', 'wrong_state'] as const

/** The routes of the market: offers, orders, their steps, and solvency. */
export function marketRoutes(ctx: Context): Route[] {
  const readSolvency = createSolvencyReader(ctx)
  return [...offerRoutes(), ...orderRoutes(), ...stepRoutes(), solvencyRoute(readSolvency)]
}

/** Declares the list of open offers, which answers on two paths. */
function offerListRoute(path: '/market' | '/market/offers'): Route {
  return defineRoute({
    method: 'GET',
    path,
    operation: path === '/market' ? 'getMarket' : 'listOffers',
    alsoAtRoot: true,
    access: 'open',
    summary:
      path === '/market'
        ? 'The same as /market/offers'
        : 'Open offers, newest first, and how the market works',
    query: offersQuery,
    view: marketView,
    errors: ['no_such_agent'],
    weight: ({ limit }) => limit * WEIGHTS.offer,
    async handle({ ctx, query }) {
      const [offers, ready] = await Promise.all([ctx.offers.list(query), listReadyCoins(ctx)])
      if (offers.length === 0) await refuseUnknownAgent(ctx, query.agent, 'agent')
      return ok({
        ...MARKET_PAGE,
        offers: offers.map((offer) => viewOffer(offer, ready)),
        count: offers.length,
        escrow_address_set: ready.length > 0,
      })
    },
  })
}

/** The routes of offers. */
function offerRoutes(): Route[] {
  return [
    offerListRoute('/market'),
    offerListRoute('/market/offers'),
    defineRoute({
      method: 'GET',
      path: '/market/offer/{offer_id}',
      operation: 'getOffer',
      alsoAtRoot: true,
      access: 'open',
      summary: 'One offer, open or closed',
      params: z.object({ offer_id: idField('offer') }),
      view: oneOfferView,
      errors: ['no_such_offer'],
      async handle({ ctx, params }) {
        const [offer, ready] = await Promise.all([findOffer(ctx, params.offer_id), listReadyCoins(ctx)])
        const seller = await ctx.agents.findAuthor(offer.agent_id)
        return ok({ offer_id: offer._id, offer: viewOffer(hideByBan(seller, offer), ready) })
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/market/offer',
      operation: 'createOffer',
      alsoAtRoot: true,
      access: 'fresh',
      summary: 'Makes an offer; sending it again makes another',
      body: offerBody,
      view: madeOfferView,
      statuses: [201],
      errors: ['wrong_state'],
      async handle({ ctx, caller, body }) {
        const offer = await makeOffer(ctx, caller._id, body)
        return created({ offer_id: offer._id, offer: viewOwnOffer(offer, await listReadyCoins(ctx)) })
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/market/offer/close',
      operation: 'closeOffer',
      alsoAtRoot: true,
      access: 'fresh',
      summary: 'Closes an offer of your own; orders made from it run on',
      body: closeOfferBody,
      view: madeOfferView,
      errors: ['no_such_offer', 'not_yours', 'wrong_state'],
      async handle({ ctx, caller, body }) {
        const offer = await closeOffer(ctx, caller._id, body.offer_id)
        return ok({ offer_id: offer._id, offer: viewOwnOffer(offer, await listReadyCoins(ctx)) })
      },
    }),
  ]
}

/** The routes that make and show orders. */
function orderRoutes(): Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/market/order',
      operation: 'createOrder',
      alsoAtRoot: true,
      access: 'fresh',
      summary: 'Orders from an offer: gives an invoice for the full price, payable to the venue',
      body: orderBody,
      view: madeOrderView,
      statuses: [201],
      errors: [
        'no_such_offer',
        'own_offer',
        'wrong_state',
        'currency_not_configured',
        'rate_unavailable',
        'unavailable',
      ],
      patienceMs: ADDRESS_WAIT_MS,
      async handle({ ctx, caller, body }) {
        const { order, invoice } = await placeOrder(ctx, caller._id, body)
        const details = { invoice, payouts: [], waitsForChain: false, payoutActor: payoutActor(ctx) }
        const view = viewOrder(order, caller._id, details)
        return created({
          order_id: order._id,
          status: order.status,
          invoice: viewInvoice(invoice),
          order: view,
        })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/market/orders',
      operation: 'listOrders',
      alsoAtRoot: true,
      access: 'fresh',
      summary: 'Your orders, bought and sold, newest first; what was delivered stands with the single order',
      query: z.object({
        before: cursorField('order').optional().describe('id of an order: those that are older'),
        limit: limitQuery(),
      }),
      view: orderListView,
      async handle({ ctx, caller, query }) {
        const orders = await listOrders(ctx, caller._id, query.before, query.limit)
        return ok({
          orders: orders.map((order) => viewOrderSummary(order, caller._id, payoutActor(ctx))),
          count: orders.length,
        })
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/market/order/{order_id}',
      operation: 'getOrder',
      alsoAtRoot: true,
      access: 'fresh',
      summary: 'One order, for its buyer and its seller alone',
      params: z.object({ order_id: idField('order') }),
      view: oneOrderView,
      errors: ['no_such_order', 'not_yours'],
      async handle({ ctx, caller, params }) {
        return showOrder(ctx, await refreshOrder(ctx, caller._id, params.order_id), caller._id)
      },
    }),
  ]
}

/** Returns the answer that shows an order to one of its sides, with its invoice and payouts. */
async function showOrder(ctx: Context, order: OrderRecord, agentId: string) {
  const view = viewOrder(order, agentId, await readOrderDetails(ctx, order, agentId))
  return ok({ order_id: order._id, status: order.status, order: view })
}

/** The routes by which a side of an order takes a step. */
function stepRoutes(): Route[] {
  return [
    defineRoute({
      method: 'POST',
      path: '/market/deliver',
      operation: 'deliverOrder',
      alsoAtRoot: true,
      access: 'fresh',
      summary: 'The seller delivers a paid order, once and before deliver_by',
      body: deliverBody,
      view: oneOrderView,
      errors: STEP_ERRORS,
      async handle({ ctx, caller, body }) {
        return showOrder(ctx, await deliverOrder(ctx, caller._id, body), caller._id)
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/market/accept',
      operation: 'acceptDelivery',
      alsoAtRoot: true,
      access: 'fresh',
      summary: 'The buyer accepts a delivery: the seller is owed the price without the fee',
      body: acceptBody,
      view: oneOrderView,
      errors: STEP_ERRORS,
      async handle({ ctx, caller, body }) {
        return showOrder(ctx, await acceptDelivery(ctx, caller._id, body), caller._id)
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/market/dispute',
      operation: 'disputeOrder',
      alsoAtRoot: true,
      access: 'fresh',
      summary: 'The buyer disputes a delivery before accept_by; the operator decides',
      body: disputeBody,
      view: oneOrderView,
      errors: STEP_ERRORS,
      async handle({ ctx, caller, body }) {
        return showOrder(ctx, await disputeOrder(ctx, caller._id, body), caller._id)
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/market/refund-address',
      operation: 'setRefundAddress',
      alsoAtRoot: true,
      access: 'fresh',
      // What is owed to it is paid all the same.
      servesBanned: true,
      summary:
        'The buyer names the address to which what it is owed for an order is paid; once, and also if it is banned',
      body: refundAddressBody,
      view: oneOrderView,
      errors: STEP_ERRORS,
      async handle({ ctx, caller, body }) {
        return showOrder(ctx, await setRefundAddress(ctx, caller._id, body), caller._id)
      },
    }),
  ]
}

/** Declares the route that shows what the venue owes and holds. */
function solvencyRoute(readSolvency: ReturnType<typeof createSolvencyReader>): Route {
  return defineRoute({
    method: 'GET',
    path: '/market/solvency',
    operation: 'getSolvency',
    alsoAtRoot: true,
    access: 'open',
    summary: 'What the venue owes by the ledger, what it holds, and the Nano accounts that hold it',
    view: solvencyView,
    async handle() {
      return ok(await readSolvency())
    },
  })
}
